//! Where an extent's bytes live, and how system calls reach them.
