-- changed_configs
-- By version and not by time: a change that commits late is found all the same. An account that was deleted has a new
-- version too.
SELECT account.account_number, account.config_version
FROM unnest($1::bigint[], $2::bigint[]) AS known(account_number, config_version)
JOIN account ON account.account_number = known.account_number
WHERE account.config_version <> known.config_version
