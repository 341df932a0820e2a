//! How Posthaste is installed: the chart, judged by Helm's own library, Kubernetes' own schemas and the programs that it
//! starts; and the images, as far as they can be run without an engine.

mod args;
mod dockerfile;
mod image;
mod plants;
mod rendered;
