//! Modules, what they define and import, and where a path through them leads.
//!
//! `facts` reads one file. `units` joins the files of a program or library to a tree of modules. `resolve` follows a
//! path to the module that defines what it names, through re-exports and globs, also of other crates.
//!
//! A name that comes by a glob and is used without a path counts by the glob alone.

mod facts;
mod resolve;
mod units;

pub use facts::{Child, Import, ModuleFacts, UsedPath, read};
pub use resolve::{Place, Resolver};
pub use units::{Unit, units};
