//! The shape of a JSON document: which fields exist, of which type, within which bounds, and what
//! is put in for those that are missing. What a CustomResourceDefinition's schema says, in Rust.
//!
//! One constant tree per kind gives everything that depends on it:
//!
//! - [`conform`]: the fields that the kind does not have, dropped and named; `null`s dropped where they
//!   are not allowed; defaults put in;
//! - [`check`]: what is wrong with what is left, in Kubernetes' words;
//! - [`crate::schema::openapi`]: the schema that the API publishes, from which field ownership comes too.
//!
//! A shape begins with a type and is narrowed by what follows it:
//!
//! ```
//! use firesteel_resources::shape::{Field, Literal, Shape};
//!
//! const PORT: Shape = Shape::INT32.min(1).max(65_535);
//! const NAME: Shape = Shape::TEXT.chars_min(1).chars_max(63).matching("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
//! const ITEM: Shape = Shape::object(&[
//!     Field::required("name", NAME).about("The name of the server."),
//!     Field::new("port", PORT.with_default(Literal::Integer(443))).about("The port that it listens at."),
//!     Field::new("mode", Shape::one_of(&["On", "Off"])).about("Whether it is used."),
//! ]);
//! const SPEC: Shape = Shape::object(&[
//!     // Each server may have its own owner.
//!     Field::new("servers", Shape::list(&ITEM).keyed_by(&["name"]).items_max(16)).about("The servers."),
//!     Field::new("labels", Shape::map(&Shape::TEXT)).about("Words for people."),
//! ]);
//! assert_eq!(firesteel_resources::schema::openapi(&SPEC)["properties"]["servers"]["maxItems"], 16);
//! ```
//!
//! A rule that a schema says in CEL is a [`CelRule`]: the text that is published, and the same in Rust, so
//! that no interpreter is needed. What no schema can say (two fields that exclude each other, the old
//! object) belongs to the rules of the kind.
//!
//! Not here, since no kind of ours has it: embedded resources, `uniqueItems` (which Kubernetes forbids),
//! rules about the old items of a list. A test compares the trees with upstream's schemas.

mod check;
mod conform;
mod path;

use serde_json::{Value, json};

pub use check::check;
pub(crate) use check::{matches, unasked_rules};
pub use conform::conform;
pub use path::join;

/// Most findings of one kind for one document: a reader stops there.
pub const FINDINGS_MAX: usize = 64;

/// What is beside the shape in every object: these belong to the API server.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What a value may be. Made by a constant or a function of a type, and narrowed by the others.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub form: ShapeForm,
    pub format: Option<OpenApiFormat>,
    /// Is put in where the field is missing.
    pub default: Option<Literal>,
    /// A `null` is a value, and kept.
    pub nullable: bool,
    /// Least value of an integer.
    pub min: Option<i64>,
    pub max: Option<i64>,
    /// Words that a text may be; none means any.
    pub words: &'static [&'static str],
    /// Expression that matches some part of a text, in Go's syntax.
    pub pattern: Option<&'static str>,
    /// Least length of a text.
    pub chars_min: Option<usize>,
    pub chars_max: Option<usize>,
    /// Least length of a list.
    pub items_min: Option<usize>,
    pub items_max: Option<usize>,
    /// Least number of fields that an object has.
    pub fields_min: Option<usize>,
    pub ownership: Ownership,
    /// Fields that an object does not name are kept.
    pub is_open: bool,
    pub rules: &'static [CelRule],
}

#[derive(Clone, Copy, Debug)]
pub enum ShapeForm {
    Boolean,
    Integer,
    Number,
    Text,
    /// A number or a text, such as `3` and `"20%"`.
    IntegerOrText,
    /// Anything at all.
    Any,
    /// Any names with values of one shape.
    Map(&'static Shape),
    List(&'static Shape),
    Object(&'static [Field]),
}

/// What OpenAPI calls the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApiFormat {
    Int32,
    Int64,
    Double,
    /// RFC 3339.
    DateTime,
}

impl OpenApiFormat {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Double => "double",
            Self::DateTime => "date-time",
        }
    }
}

/// A value in a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    Boolean(bool),
    Integer(i64),
    Text(&'static str),
    /// An object, whose own fields' defaults are put in then.
    EmptyObject,
}

impl Literal {
    #[must_use]
    pub fn value(self) -> Value {
        match self {
            Self::Boolean(value) => json!(value),
            Self::Integer(value) => json!(value),
            Self::Text(value) => json!(value),
            Self::EmptyObject => json!({}),
        }
    }
}

/// Who may own what is inside, when several clients apply the same object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// Nothing is said: each field of an object has its own owner, a list has one.
    #[default]
    Unsaid,
    /// One owner for all.
    Atomic,
    /// Items of a list are owned one by one; each is there once.
    Set,
    /// Items of a list are owned one by one, known by these of their fields.
    Keyed(&'static [&'static str]),
}

/// A rule in CEL, and the same in Rust.
#[derive(Clone, Copy, Debug)]
pub struct CelRule {
    pub cel: &'static str,
    pub message: &'static str,
    /// Judges the value and, if the object exists already, its old value. A value of another type than
    /// the shape's is none of its business: it is refused elsewhere.
    pub holds: fn(&Value, Option<&Value>) -> bool,
}

impl Shape {
    pub const BOOLEAN: Self = Self::of(ShapeForm::Boolean);
    pub const INTEGER: Self = Self::of(ShapeForm::Integer);
    pub const INT32: Self = Self::INTEGER.format(OpenApiFormat::Int32);
    pub const INT64: Self = Self::INTEGER.format(OpenApiFormat::Int64);
    /// An integer of at least 0.
    pub const NATURAL: Self = Self::INTEGER.min(0);
    pub const NUMBER: Self = Self::of(ShapeForm::Number);
    pub const TEXT: Self = Self::of(ShapeForm::Text);
    pub const TIME: Self = Self::TEXT.format(OpenApiFormat::DateTime);
    pub const INTEGER_OR_TEXT: Self = Self::of(ShapeForm::IntegerOrText);
    pub const ANY: Self = Self::of(ShapeForm::Any);

    #[must_use]
    pub const fn of(form: ShapeForm) -> Self {
        Self {
            form,
            format: None,
            default: None,
            nullable: false,
            min: None,
            max: None,
            words: &[],
            pattern: None,
            chars_min: None,
            chars_max: None,
            items_min: None,
            items_max: None,
            fields_min: None,
            ownership: Ownership::Unsaid,
            is_open: false,
            rules: &[],
        }
    }

    /// One of these words.
    #[must_use]
    pub const fn one_of(words: &'static [&'static str]) -> Self {
        Self { words, ..Self::TEXT }
    }

    #[must_use]
    pub const fn map(values: &'static Self) -> Self {
        Self::of(ShapeForm::Map(values))
    }

    #[must_use]
    pub const fn list(items: &'static Self) -> Self {
        Self::of(ShapeForm::List(items))
    }

    #[must_use]
    pub const fn object(fields: &'static [Field]) -> Self {
        Self::of(ShapeForm::Object(fields))
    }

    #[must_use]
    pub const fn format(self, format: OpenApiFormat) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Gives the shape a default.
    #[must_use]
    pub const fn with_default(self, default: Literal) -> Self {
        Self { default: Some(default), ..self }
    }

    #[must_use]
    pub const fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }

    #[must_use]
    pub const fn min(self, min: i64) -> Self {
        Self { min: Some(min), ..self }
    }

    #[must_use]
    pub const fn max(self, max: i64) -> Self {
        Self { max: Some(max), ..self }
    }

    #[must_use]
    pub const fn matching(self, pattern: &'static str) -> Self {
        Self { pattern: Some(pattern), ..self }
    }

    #[must_use]
    pub const fn chars_min(self, chars: usize) -> Self {
        Self { chars_min: Some(chars), ..self }
    }

    #[must_use]
    pub const fn chars_max(self, chars: usize) -> Self {
        Self { chars_max: Some(chars), ..self }
    }

    #[must_use]
    pub const fn items_min(self, items: usize) -> Self {
        Self { items_min: Some(items), ..self }
    }

    #[must_use]
    pub const fn items_max(self, items: usize) -> Self {
        Self { items_max: Some(items), ..self }
    }

    #[must_use]
    pub const fn fields_min(self, fields: usize) -> Self {
        Self { fields_min: Some(fields), ..self }
    }

    /// One owner for all that is inside.
    #[must_use]
    pub const fn atomic(self) -> Self {
        Self { ownership: Ownership::Atomic, ..self }
    }

    /// A list in which each item is there once and has its own owner.
    #[must_use]
    pub const fn set(self) -> Self {
        Self { ownership: Ownership::Set, ..self }
    }

    /// A list whose items are known by these fields, so that each may have its own owner.
    #[must_use]
    pub const fn keyed_by(self, fields: &'static [&'static str]) -> Self {
        Self { ownership: Ownership::Keyed(fields), ..self }
    }

    /// An object that keeps what it does not name.
    #[must_use]
    pub const fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    #[must_use]
    pub const fn ruled_by(self, rules: &'static [CelRule]) -> Self {
        Self { rules, ..self }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub required: bool,
    pub shape: Shape,
    /// What the field is for, as `kubectl explain` shows it.
    pub about: &'static str,
}

impl Field {
    #[must_use]
    pub const fn new(name: &'static str, shape: Shape) -> Self {
        Self { name, required: false, shape, about: "" }
    }

    #[must_use]
    pub const fn required(name: &'static str, shape: Shape) -> Self {
        Self { required: true, ..Self::new(name, shape) }
    }

    pub(crate) const fn spec(shape: Shape, about: &'static str) -> Self {
        Self::new("spec", shape).about(about)
    }

    pub(crate) const fn status(shape: Shape, about: &'static str) -> Self {
        Self::new("status", shape).about(about)
    }

    #[must_use]
    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

fn field<'a>(fields: &'a [Field], name: &str) -> Option<&'a Field> {
    fields.iter().find(|field| field.name == name)
}
