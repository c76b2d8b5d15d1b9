//! Tells cargo what the server is made of besides its sources: the migrations, and in releases the site.

use std::{env, fs, path::Path};

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
    let site = Path::new("../target/site");
    // A debug build reads the site from disk, but remembers where it is only if it is there when the server is compiled.
    if let Err(error) = fs::create_dir_all(site) {
        println!("cargo:warning=the folder for the site could not be made: {error}");
    }
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo:rerun-if-changed={}", site.display());
    }
}
