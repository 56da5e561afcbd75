"""Generated protobuf modules; `make proto` writes them from the .proto files beside them."""
