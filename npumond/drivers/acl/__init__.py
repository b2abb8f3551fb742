"""The ACL runtime, second source where DCMI is missing: `abi` has its structures and functions, `driver` the driver."""
