//! Shapes of references to other objects.

use crate::shape::{Field, Shape};

pub(crate) const SECRET_SHAPE: Shape = Shape::object(&[
    Field::new("name", Shape::TEXT).about("The name of the Secret."),
    Field::new("namespace", Shape::TEXT).about("The Secret's namespace; without it, that of this object."),
])
.atomic();

pub(crate) const REFERENCE_SHAPE: Shape = Shape::object(&[
    Field::new("apiVersion", Shape::TEXT).about("The API version of the object."),
    Field::new("fieldPath", Shape::TEXT).about("The part of the object that is meant."),
    Field::new("kind", Shape::TEXT).about("The kind of the object."),
    Field::new("name", Shape::TEXT).about("The name of the object."),
    Field::new("namespace", Shape::TEXT).about("The namespace of the object."),
    Field::new("resourceVersion", Shape::TEXT).about("The revision of the object that is meant."),
    Field::new("uid", Shape::TEXT).about("The UID of the object."),
])
.atomic();
