//! The simulations that are open: each behind a secret of its own, for a limited time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{
    config::simulation::Settings,
    replay::{
        document,
        sim::{
            call::{Call, ModelAnswer},
            policy::{Patches, Policy},
            report::Report,
            session::{self, Mode, Reply, Session},
        },
    },
    run::{Run, model::StepKind},
    tenant::TenantId,
};

/// The longest that a session lasts, whatever the configuration says.
const TTL_MAX_S: u64 = 366 * 24 * 3600;

/// What `POST /v1/runs/{id}/simulations` and `spanreel simulate` ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Order {
    /// How calls are matched.
    pub mode: Mode,
    /// Other runs that the agent's program made, in order.
    pub with: Vec<String>,
    /// A record with holes is taken.
    pub allow_partial: bool,
    /// What is done about tools.
    pub policy: Policy,
    /// What replaces recorded answers, by step.
    pub patch: Patches,
    /// Every answer is held until the session is told to go on.
    pub step: bool,
    /// Answers that are held: indexes of steps, and names of models or tools.
    pub breakpoints: Vec<Breakpoint>,
    /// 0 answers at once; 1 as fast as was recorded, 2 twice as fast.
    pub speed: f64,
    /// The record was redacted by our rules; set for redacted fixtures.
    #[serde(skip)]
    pub is_redacted: bool,
}

/// Where an execution pauses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Breakpoint {
    /// Index of a step.
    Step(u32),
    /// Name of a model or tool.
    Name(String),
}

/// An order that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The record, or what was asked of it.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// Too many are open.
    #[error("{0} simulations are open, as many as simulation.sessions_max allows; end some, or wait")]
    TooMany(usize),
    /// A speed that is none.
    #[error("speed is 0 (at once) or a number above it, not {0}")]
    Speed(f64),
    /// The system gives no random bytes.
    #[error("no random bytes from the system: {0}")]
    Random(getrandom::Error),
}

/// A call that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Held {
    pub step_index: Option<u32>,
    pub kind: StepKind,
    pub name: String,
}

/// A simulation that is open.
#[derive(Debug)]
pub struct Simulation {
    /// Names it in the API, in resource attributes and in reports. No credential.
    pub id: String,
    /// Whose run it is.
    pub tenant: TenantId,
    session: Session,
    order: Order,
    runs: Vec<Arc<Run>>,
    expires: Instant,
    expires_at: SystemTime,
    held: Mutex<VecDeque<(Held, oneshot::Sender<()>)>>,
    is_closed: AtomicBool,
}

/// All simulations of a server. A secret opens one; nothing else does.
#[derive(Debug)]
pub struct Sessions {
    settings: Settings,
    by_secret: Mutex<HashMap<String, Arc<Simulation>>>,
}

impl Sessions {
    /// None is open.
    pub fn new(settings: Settings) -> Self {
        Self { settings, by_secret: Mutex::default() }
    }

    /// What holds for all of them.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Opens a simulation of `runs`, and returns it with its secret.
    ///
    /// # Errors
    /// The record has holes, the order does not fit it, or too many are open.
    pub fn open(
        &self,
        tenant: TenantId,
        runs: Vec<Arc<Run>>,
        order: Order,
    ) -> Result<(String, Arc<Simulation>), Error> {
        if !(order.speed.is_finite() && order.speed >= 0.0) {
            return Err(Error::Speed(order.speed));
        }
        let (secret, id) = (random_id()?, random_id()?);
        let settings = session::Settings {
            mode: order.mode,
            allow_partial: order.allow_partial,
            policy: order.policy.clone(),
            patches: order.patch.clone(),
            is_redacted: order.is_redacted,
        };
        let session = Session::new(runs.clone(), settings, id.clone())?;
        let ttl = Duration::from_secs(self.settings.session_ttl_s.min(TTL_MAX_S));
        let simulation = Arc::new(Simulation {
            id,
            tenant,
            session,
            order,
            runs,
            expires: Instant::now() + ttl,
            expires_at: SystemTime::now() + ttl,
            held: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let mut open = self.by_secret.lock();
        let now = Instant::now();
        open.retain(|_, simulation| simulation.expires > now);
        if open.len() >= self.settings.sessions_max {
            return Err(Error::TooMany(open.len()));
        }
        let _ = open.insert(secret.clone(), Arc::clone(&simulation));
        Ok((secret, simulation))
    }

    /// The simulation that `secret` opens, while it lasts.
    pub fn by_secret(&self, secret: &str) -> Option<Arc<Simulation>> {
        let found = self.by_secret.lock().get(secret).cloned();
        found.filter(|simulation| simulation.expires > Instant::now())
    }

    /// The simulation of that id, when it is the tenant's.
    pub fn find(&self, tenant: &TenantId, id: &str) -> Option<Arc<Simulation>> {
        let open = self.by_secret.lock();
        let mut all = open.values().filter(|simulation| simulation.expires > Instant::now());
        all.find(|simulation| simulation.id == id && simulation.tenant == *tenant).cloned()
    }

    /// Ends a simulation; its secret opens nothing from now on.
    pub fn close(&self, tenant: &TenantId, id: &str) -> Option<Arc<Simulation>> {
        let found = self.find(tenant, id)?;
        self.by_secret.lock().retain(|_, simulation| simulation.id != id);
        // Whoever is held gets an answer.
        let mut held = found.held.lock();
        found.is_closed.store(true, Ordering::SeqCst);
        held.clear();
        drop(held);
        Some(found)
    }
}

impl Simulation {
    /// Answers a call; a pause comes before the answer.
    pub async fn answer(self: &Arc<Self>, call: Arc<Call>, is_resent: bool) -> Reply {
        let (own, asked) = (Arc::clone(self), Arc::clone(&call));
        // Calls of one session wait for each other, which must not keep a thread from other sockets.
        let found = tokio::task::spawn_blocking(move || own.session.answer(&asked, is_resent)).await;
        let reply = match found {
            Ok(reply) => reply,
            Err(error) => {
                tracing::error!(%error, "a call of an agent ended early");
                return self.session.block(&call, "the server failed; its log says why");
            }
        };
        let (kind, name) = match &*call {
            Call::Model(call) => (StepKind::ModelCall, &call.model),
            Call::Tool(call) => (StepKind::ToolCall, &call.name),
            Call::Embedding(call) => (StepKind::Embedding, &call.model),
        };
        let step_index = reply.step.as_ref().map(|(_, index)| *index);
        let stops = |breakpoint: &Breakpoint| match breakpoint {
            Breakpoint::Step(index) => Some(*index) == step_index,
            Breakpoint::Name(other) => other == name,
        };
        if self.order.step || self.order.breakpoints.iter().any(stops) {
            self.hold(Held { step_index, kind, name: name.clone() }).await;
        }
        reply
    }

    /// Waits until somebody lets go, or the session ends.
    async fn hold(&self, held: Held) {
        let (go_on, wait) = oneshot::channel();
        {
            let mut queue = self.held.lock();
            // What went away waits no longer.
            queue.retain(|(_, go_on)| !go_on.is_closed());
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
            queue.push_back((held, go_on));
        }
        let _ = tokio::time::timeout_at(self.expires.into(), wait).await;
    }

    /// Lets go of the call that has been held longest; `None` when none is held.
    pub fn go_on(&self) -> Option<Held> {
        loop {
            let (held, go_on) = self.held.lock().pop_front()?;
            // A client that went away waits no longer.
            if go_on.send(()).is_ok() {
                return Some(held);
            }
        }
    }

    /// What was found so far.
    pub fn report(&self) -> Report {
        self.session.report()
    }

    /// Tells the session that a call was not answered because it would have had to be live.
    pub fn block(&self, call: &Call, reason: &str) -> Reply {
        self.session.block(call, reason)
    }

    /// The answer that was given under `id`, for calls that refer to it.
    pub fn given(&self, id: &str) -> Option<ModelAnswer> {
        self.session.given(id)
    }

    /// Names of the models and definitions of the tools in the record.
    pub fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// How much faster than recorded it answers; 0 for at once.
    pub fn speed(&self) -> f64 {
        self.order.speed
    }

    /// Where it stands.
    pub fn status(&self) -> Value {
        let (answered, refused) = self.session.counts();
        let mut held = self.held.lock();
        held.retain(|(_, go_on)| !go_on.is_closed());
        json!({
            "simulation_id": self.id,
            "run_id": self.runs.first().map(|run| &run.run_id),
            "mode": self.order.mode,
            "state": if held.is_empty() { "open" } else { "waiting" },
            "answered": answered,
            "refused": refused,
            "waiting": held.front().map(|(held, _)| held),
        })
    }

    /// What whoever runs the agent has to know. `origin` is where agents reach the server, such as `http://host:port`.
    pub fn document(&self, origin: &str, secret: &str) -> Value {
        let run = self.runs.first();
        let base_url = format!("{origin}/sim/{secret}");
        let expires_at = self.expires_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        json!({
            "simulation_id": self.id,
            "run_id": run.map(|run| &run.run_id),
            "mode": self.order.mode,
            "base_url": base_url,
            "expires_at": document::time(u64::try_from(expires_at.as_nanos()).unwrap_or_default()),
            "replayability": run.map(|run| run.replayability),
            "partial_reasons": run.map(|run| &run.partial_reasons),
            "env": super::environment::variables(&base_url, &self.id, run.map(|run| run.run_id.as_str())),
        })
    }
}

/// 128 random bits, as hex digits.
fn random_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(hex::encode(bytes))
}
