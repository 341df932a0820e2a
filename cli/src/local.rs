//! A system on this machine: its folder, its database, its parts in the order of their start.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::join_all;
use tokio::time::sleep;

use crate::exit::Refused;
use crate::postgres::{self, Server, Settings};
use crate::system::{Part, Spec};
use crate::terminal::note;

/// How long parts may drain: a little more than the limits that they set themselves.
const DRAIN_LIMIT: Duration = Duration::from_secs(35);

/// How often the database is looked at.
pub(crate) const DATABASE_POLL: Duration = Duration::from_secs(1);

/// How long the parts of a run that was killed are waited for; they drain for at most 5 s.
const OLD_PARTS_LIMIT: Duration = Duration::from_secs(20);

/// Whoever was killed a moment ago may still hold its locks.
const LOCK_LIMIT: Duration = Duration::from_secs(1);
const LOCK_POLL: Duration = Duration::from_millis(20);

/// What distinguishes one local system from another.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The database; none: one is run in the folder.
    pub(crate) database_url: Option<String>,
    /// The folder of `initdb` and `postgres`, if the caller named it.
    pub(crate) postgres_bin: Option<PathBuf>,
    /// The keys; none: made in the folder.
    pub(crate) secret_key_file: Option<PathBuf>,
    pub(crate) agents: u16,
    pub(crate) grpc_listen: SocketAddr,
    pub(crate) admin_listen: SocketAddr,
    /// The address policy, for control plane and agents alike.
    pub(crate) policy: Vec<OsString>,
    /// Further arguments of the control plane.
    pub(crate) control_plane_args: Vec<OsString>,
}

/// The running system. [`Local::stop`] drains it; dropping it kills the parts and stops the database.
#[derive(Debug)]
pub(crate) struct Local {
    // In the order in which they go when dropped: whatever uses the database goes before it.
    pub(crate) agents: Vec<Part>,
    pub(crate) control_plane: Part,
    pub(crate) database: Option<Server>,
    settings: Settings,
    _lock: File,
}

/// The folder of a local system.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes it when it is missing. As root, its database runs as another user, who must get through.
    pub(crate) fn prepare(path: &Path) -> Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(path)
            .with_context(|| format!("making {}", path.display()))?;
        let path = fs::canonicalize(path)?;
        DirBuilder::new().recursive(true).mode(0o700).create(path.join("log"))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Reserves the folder for this process, until the file is dropped.
    async fn lock(&self) -> Result<File> {
        let path = self.0.join("up.lock");
        let mut file = File::options().create(true).read(true).append(true).open(&path)?;
        if !lock_within(&file, LOCK_LIMIT).await? {
            let pid = fs::read_to_string(&path).unwrap_or_default();
            bail!(Refused::configuration(format!(
                "another posthaste (pid {}) already runs with the data folder {}; stop it, or choose another with \
                 --data-dir",
                pid.trim(),
                self.0.display()
            )));
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(file)
    }

    /// Waits until the parts of an earlier run, which nobody stopped, have ended by themselves.
    async fn wait_for_old_parts(&self) -> Result<()> {
        let file = File::options().create(true).append(true).open(self.parts_lock())?;
        if lock_within(&file, LOCK_LIMIT).await? {
            return Ok(());
        }
        note("waiting for the processes of an earlier run to end");
        if !lock_within(&file, OLD_PARTS_LIMIT).await? {
            bail!("processes of an earlier run still use {}", self.0.display());
        }
        Ok(())
    }

    fn parts_lock(&self) -> PathBuf {
        self.0.join("parts.lock")
    }

    /// Starts a part whose log and lock are in this folder.
    pub(crate) async fn start(
        &self,
        name: &str,
        part: &'static str,
        args: Vec<OsString>,
        envs: Vec<(&'static str, OsString)>,
    ) -> Result<Part> {
        let spec = Spec {
            program: std::env::current_exe()?,
            name: name.to_owned(),
            part,
            args,
            envs,
            log: self.0.join("log").join(format!("{name}.log")),
            lock: self.parts_lock(),
        };
        Ok(Part::start(spec).await?)
    }

    /// The file with the keys that encrypt endpoints' secrets; made at the first start, readable by this user only.
    fn secret_key_file(&self) -> Result<PathBuf> {
        let path = self.0.join("secret.key");
        if !path.exists() {
            let unfinished = self.0.join("secret.key.unfinished");
            let _ = fs::remove_file(&unfinished);
            let mut file = File::options().create_new(true).write(true).mode(0o600).open(&unfinished)?;
            writeln!(file, "local-1:{}", BASE64_STANDARD.encode(rand::random::<[u8; 32]>()))?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            note(&format!("made a secret key in {}; without it the endpoints' secrets are lost", path.display()));
        }
        Ok(path)
    }
}

impl Local {
    /// Starts everything: database, control plane, agents; each is ready before the next begins.
    pub(crate) async fn start(folder: &Folder, plan: &Plan) -> Result<Self> {
        let lock = folder.lock().await?;
        folder.wait_for_old_parts().await?;
        let secret_key_file = match &plan.secret_key_file {
            Some(file) => file.clone(),
            None => folder.secret_key_file()?,
        };
        let mut settings = Settings::new(folder.path().join("postgres"));
        settings.binaries.clone_from(&plan.postgres_bin);
        let database = match plan.database_url {
            Some(_) => None,
            None => Some(open_database(&settings).await?),
        };
        let url = plan.database_url.clone().or_else(|| database.as_ref().map(Server::url)).unwrap_or_default();

        let mut args = plan.policy.clone();
        args.extend(["--secret-key-file".into(), secret_key_file.into()]);
        args.extend(["--grpc-listen".into(), plan.grpc_listen.to_string().into()]);
        args.extend(["--admin-listen".into(), plan.admin_listen.to_string().into()]);
        if database.is_some() {
            // Nobody else uses this database: one that comes back under its name needn't wait until its life has lapsed.
            args.extend(["--replica-id".into(), "local".into()]);
        }
        args.extend(plan.control_plane_args.iter().cloned());
        let envs = vec![("POSTHASTE_DATABASE_URL", url.into())];
        let control_plane = folder.start("control-plane", "control-plane", args, envs).await?;
        let mut local = Self { agents: Vec::new(), control_plane, database, settings, _lock: lock };
        local.start_agents(folder, plan).await?;
        Ok(local)
    }

    /// Starts the plan's agents; each is ready afterwards.
    pub(crate) async fn start_agents(&mut self, folder: &Folder, plan: &Plan) -> Result<()> {
        let server = self.server()?;
        let agents = (1..=plan.agents).map(|number| {
            let mut args = plan.policy.clone();
            args.extend(["--control-plane".into(), (&server).into()]);
            args.extend(["--agent-id".into(), format!("local-{number}").into()]);
            // Any free port: there may be many agents, and more than one system, on this machine.
            args.extend(["--admin-listen".into(), "127.0.0.1:0".into()]);
            async move { folder.start(&format!("agent-{number}"), "agent", args, Vec::new()).await }
        });
        self.agents = join_all(agents).await.into_iter().collect::<Result<_>>()?;
        Ok(())
    }

    /// The address of `key` (`grpc` or `admin`) as the control plane announced it.
    pub(crate) fn address(&self, key: &str) -> Result<&str> {
        self.control_plane.ready(key).with_context(|| format!("the control plane names no {key} address"))
    }

    /// The URL of the API.
    pub(crate) fn server(&self) -> Result<String> {
        Ok(format!("http://{}", self.address("grpc")?))
    }

    /// Starts the database again if it has ended.
    pub(crate) async fn check_database(&mut self) -> Result<()> {
        check_database(self.database.as_mut(), &self.settings).await
    }

    /// Ends everything but the database, in the order in which work flows: agents first, so that their results are
    /// settled; then the control plane. The database is kept running meanwhile, since nothing settles without it.
    pub(crate) async fn drain(&mut self) -> Result<()> {
        let Self { agents, control_plane, database, settings, .. } = self;
        let mut parts = pin!(async {
            let stopped = join_all(agents.iter_mut().map(|agent| agent.stop(DRAIN_LIMIT))).await;
            stopped.into_iter().collect::<io::Result<Vec<_>>>()?;
            control_plane.stop(DRAIN_LIMIT).await
        });
        loop {
            if let Err(error) = check_database(database.as_mut(), settings).await {
                note(&format!("{error:#}"));
            }
            tokio::select! {
                stopped = &mut parts => return Ok(stopped.map(drop)?),
                () = sleep(DATABASE_POLL) => {}
            }
        }
    }

    /// Drains, then stops the database.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.drain().await?;
        if let Some(mut database) = self.database.take() {
            tokio::task::spawn_blocking(move || database.stop()).await??;
        }
        Ok(())
    }
}

async fn check_database(database: Option<&mut Server>, settings: &Settings) -> Result<()> {
    if let Some(database) = database
        && !database.is_running()
    {
        note("the Postgres server has ended; starting it again");
        *database = open_database(settings).await?;
    }
    Ok(())
}

/// Whether the lock was got.
async fn lock_within(file: &File, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => return Ok(false),
            Err(TryLockError::WouldBlock) => sleep(LOCK_POLL).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Starts the server of these settings, or adopts it.
pub(crate) async fn open_database(settings: &Settings) -> Result<Server> {
    let settings = settings.clone();
    Ok(tokio::task::spawn_blocking(move || postgres::open(&settings, &mut note)).await??)
}
