"""Pure analyses: a Trace or Run in, a frozen result out. Each is one module with one public function."""
