//! The service behind real programs that others wrote. `scripts/peers` installs them.

mod envoy;
