//! Answers as people write them: `/orders=503,503,200`, `/slow=hang`, `/busy=429:10`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Answer, Ending};

/// The answers of one path; the last one is given for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// With its slash, without a query.
    pub path: String,
    /// At least one.
    pub answers: Vec<Answer>,
}

/// Why a text is no script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// No `=`, or nothing before it that begins with a slash.
    #[error("a script is written /PATH=ANSWER,ANSWER, such as /orders=503,503,200")]
    Form,
    /// A query or a fragment, which the choice of answers doesn't look at.
    #[error("a script's path ends before `?` and `#`")]
    Query,
    /// A word that stands for no answer.
    #[error(
        "`{0}` is no answer: write a status (200–599), a status with its Retry-After in seconds (429:10), hang, close, \
         drip, endless or broken"
    )]
    Answer(String),
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let (path, answers) = text.split_once('=').ok_or(ScriptError::Form)?;
        if !path.starts_with('/') {
            return Err(ScriptError::Form);
        }
        if path.contains(['?', '#']) {
            return Err(ScriptError::Query);
        }
        let answers = answers.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { path: path.to_owned(), answers })
    }
}

impl FromStr for Answer {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let refused = || ScriptError::Answer(text.to_owned());
        let ended = |ending| Ok(Self::status(200).ending(ending));
        match text {
            "hang" => ended(Ending::Hang),
            "close" => ended(Ending::Close),
            "drip" => ended(Ending::Drip),
            "endless" => ended(Ending::EndlessBody),
            "broken" => ended(Ending::BrokenBody),
            _ => {
                let (status, wait_s) = match text.split_once(':') {
                    Some((status, wait_s)) => (status, Some(number(wait_s).ok_or_else(refused)?)),
                    None => (text, None),
                };
                let status = number(status).and_then(|status| u16::try_from(status).ok());
                let status = status.filter(|status| (200..=599).contains(status)).ok_or_else(refused)?;
                let answer = Self::status(status);
                Ok(match wait_s {
                    Some(wait_s) => answer.header("retry-after", &wait_s.to_string()),
                    None => answer,
                })
            }
        }
    }
}

/// Plain digits: a sign or a space would be a slip.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// As it is written in a script, as far as a script can say it.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ending {
            Ending::Hang => f.write_str("hang"),
            Ending::Close => f.write_str("close"),
            Ending::Drip => f.write_str("drip"),
            Ending::EndlessBody => f.write_str("endless"),
            Ending::BrokenBody => f.write_str("broken"),
            Ending::Complete => {
                let wait = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
                match wait {
                    Some((_, wait)) => write!(f, "{}:{wait}", self.status),
                    None => write!(f, "{}", self.status),
                }
            }
        }?;
        match self.delay_ms {
            0 => Ok(()),
            delay_ms => write!(f, " after {:?}", Duration::from_millis(delay_ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_as_people_write_them() {
        for (text, path) in [
            ("/orders=503,503,200", "/orders"),
            ("/slow=hang", "/slow"),
            ("/=410", "/"),
            ("/busy=429:10,503:0,200", "/busy"),
            ("/a/b=drip,close,endless,broken", "/a/b"),
        ] {
            let script: Script = text.parse().unwrap();
            let again: Vec<String> = script.answers.iter().map(ToString::to_string).collect();
            assert_eq!((script.path.as_str(), format!("{path}={}", again.join(","))), (path, text.to_owned()));
        }
        let script: Script = "/busy=429:10".parse().unwrap();
        assert_eq!(script.answers, [Answer::status(429).header("retry-after", "10")]);
    }

    #[test]
    fn what_is_no_script() {
        let check = |text: &str, error| assert_eq!(text.parse::<Script>(), Err(error), "{text}");
        check("", ScriptError::Form);
        check("/orders", ScriptError::Form);
        check("orders=200", ScriptError::Form);
        check("/orders?a=200", ScriptError::Query);
        for word in ["", "100", "99", "600", "ok", "+200", "200 ", "429:", "429:soon", "429:-1", "2000"] {
            check(&format!("/orders=200,{word}"), ScriptError::Answer(word.to_owned()));
        }
    }
}
