//! `posthaste top`: which accounts wait longest and what the agents do, drawn anew until somebody has seen enough.

mod view;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use anyhow::Result;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};

use self::view::Screen;
use crate::{
    args::TopArgs,
    commands::{Connection, Watch},
    exit::{Exit, Refused},
    failure,
    output::render,
    terminal::say,
};

/// No look takes longer.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// Draws until a key ends it; prints one table where nobody could press one.
pub(crate) async fn run(connection: &Connection, args: TopArgs) -> Result<Exit> {
    let mut watch = Watch::open(connection).await?;
    if args.once || !io::stdout().is_terminal() {
        let overview = watch.look(args.accounts).await?;
        say(&render(connection.output(), &overview).map_err(|error| failure::unreadable(&error))?);
        return Ok(Exit::Success);
    }
    let mut terminal = ratatui::try_init()?;
    let drawn = draw(&mut terminal, &mut watch, &args).await;
    ratatui::restore();
    drawn.map(|()| Exit::Success)
}

async fn draw(terminal: &mut DefaultTerminal, watch: &mut Watch, args: &TopArgs) -> Result<()> {
    let mut screen = Screen::default();
    loop {
        let until = Instant::now() + args.interval;
        match tokio::time::timeout(LOOK_TIMEOUT, watch.look(args.accounts)).await {
            Ok(Ok(overview)) => screen.take(overview),
            Ok(Err(Refused { message, .. })) => screen.fail(message),
            Err(_) => screen.fail(format!("no answer within {} s", LOOK_TIMEOUT.as_secs())),
        }
        loop {
            terminal.draw(|frame| view::draw(frame, &screen))?;
            match tokio::task::spawn_blocking(move || next(until)).await?? {
                Some(Event::Key(key)) if ends(key) => return Ok(()),
                // A new size, or a key that means nothing: draw again.
                Some(_) => {}
                None => break,
            }
        }
    }
}

/// What the terminal says until then.
fn next(until: Instant) -> io::Result<Option<Event>> {
    let waits = event::poll(until.saturating_duration_since(Instant::now()))?;
    if waits { event::read().map(Some) } else { Ok(None) }
}

/// `q`, Escape and Ctrl-C: the terminal hands over all keys as they are.
fn ends(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || (control && key.code == KeyCode::Char('c'))
}
