"""Documents as whole pages of HTML: one file each, that asks for no other."""
