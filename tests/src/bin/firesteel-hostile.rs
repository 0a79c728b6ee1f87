//! The hostile machine of the suite `attacks`: see [`firesteel_tests::hostile`].

fn main() {
    firesteel_tests::hostile::run();
}
