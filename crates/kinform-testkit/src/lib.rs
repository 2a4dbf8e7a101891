//! What tests of informers and controllers need: for us and for users.
//!
//! ```text
//! scripted sources ──────────────────▶ informer under test → what its handlers heard → Witness, Picture
//! Stage { server, Link | Proxy } ────▶        ▲
//!      ▲ Round { Plan of a seed, Writer } ────┘ trouble
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `scripted` | a source whose server is the test |
//! | `server` | a server and an operator of a test's own |
//! | `link`, `proxy`, `control` | networks that cut, refuse and stall: in process, and over sockets |
//! | `stage` | a server behind such a network |
//! | `writer` | random writes by ordinary requests, and the truth read by one |
//! | `picture`, `witness` | what was heard, put together; contradictions; convergence |
//! | `rounds` | sequences of faults from a seed |

pub mod control;
pub mod link;
pub mod picture;
pub mod proxy;
pub mod rounds;
pub mod scripted;
pub mod server;
pub mod stage;
pub mod witness;
pub mod writer;
