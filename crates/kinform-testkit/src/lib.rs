//! Tools for tests of informers and controllers.
//!
//! ```text
//! ScriptedSource ──▶ informer or controller under test ◀── TestServer (with Link or Proxy before it)
//! ```
//!
//! | I want to .. | type |
//! |---|---|
//! | test a controller against a server in this process | [`TestServer`] |
//! | say exactly what a server answers, and when | [`scripted()`], [`ScriptedSource`], [`Script`] |
//! | cut, refuse and stall connections | [`Link`] in process, [`Proxy`] over sockets, [`Network`] |
//! | have the embedded server refuse or lag | [`Fault`], by [`TestServer::server`] |
//! | find out whether a controller survives crashes, stale caches and lost replies | [`simulate()`] |

#[doc(hidden)]
pub mod checks;
mod control;
mod link;
mod proxy;
mod scripted;
pub mod server;
pub mod simulate;

#[doc(no_inline)]
pub use kinform::{Handlers, Notification, ResourceInfo, SourceError, source::ListerWatcher};
#[doc(no_inline)]
pub use kinform_api::{ListOptions, WatchOptions};
pub use kinform_apiserver::{Builder, Fault, FeatureGate, FeatureGates, Server, Service};
#[cfg(feature = "controllers")]
pub use kinform_controlplane::{ControllerName, Selection};

pub use crate::control::{Network, ProxyMode};
#[doc(hidden)]
pub use crate::link::ReplyBody;
pub use crate::link::{Link, Tamper};
pub use crate::proxy::Proxy;
pub use crate::scripted::{Ask, Request, Script, ScriptedSource, Sending, scripted, status_error};
pub use crate::server::{Loss, Operator, Starting, TestError, TestObject, TestServer};
pub use crate::simulate::{Simulation, simulate};
