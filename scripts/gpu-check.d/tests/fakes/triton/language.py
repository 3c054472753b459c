"""triton.language: the names that a kernel's signature uses."""
constexpr = int
