"""What commands read and write: columns of files, saved models, folders with reports, and what is said of them."""
