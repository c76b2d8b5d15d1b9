//! A way to a server that can be cut: connections end, and new ones end at once, until it is mended. Or it falls silent: what
//! is sent goes nowhere, and nobody is told.

use std::{io, net::SocketAddr};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The way.
pub struct Proxy {
    pub port: u16,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Silent,
    Cut,
}

impl Proxy {
    /// Leads to this server.
    pub async fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (state, changes) = watch::channel(State::Open);
        tokio::spawn(async move {
            while let Ok((here, _)) = listener.accept().await {
                tokio::spawn(carry(here, server, changes.clone()));
            }
        });
        Ok(Self { port, state })
    }

    pub fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    pub fn fall_silent(&self) {
        self.state.send_replace(State::Silent);
    }

    pub fn mend(&self) {
        self.state.send_replace(State::Open);
    }
}

/// A connection for as long as the way stays open. One that the silence has met is never heard of again.
async fn carry(mut here: TcpStream, server: SocketAddr, mut changes: watch::Receiver<State>) {
    let Ok(mut there) = TcpStream::connect(server).await else { return };
    let met = tokio::select! {
        biased;
        state = changes.wait_for(|state| *state != State::Open) => state.map(|state| *state),
        _ = copy_bidirectional(&mut here, &mut there) => return,
    };
    if matches!(met, Ok(State::Silent)) {
        let _ = changes.wait_for(|state| *state != State::Silent).await;
    }
}
