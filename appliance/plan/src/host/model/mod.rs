//! What is stored of a host, what is observed of it and what a step returns: data, and what follows from one value alone.
//! Nothing here knows a step.

mod claims;
mod effect;
mod erasure;
mod health_inputs;
mod inputs;
mod known_identity;
mod limits;
mod memory;
mod netboot;
mod orders;
mod power_cut;
mod receipts;
mod refused_hello;

pub use claims::*;
pub use effect::*;
pub use erasure::*;
pub use health_inputs::*;
pub use inputs::*;
pub use known_identity::*;
pub use limits::*;
pub use memory::*;
pub use netboot::*;
pub use orders::*;
pub use power_cut::*;
pub use receipts::*;
pub use refused_hello::*;
