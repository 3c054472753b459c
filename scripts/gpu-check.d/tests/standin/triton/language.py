"""triton.language: what a kernel's signature names."""
constexpr = int
