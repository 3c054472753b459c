module goroutines

go 1.27
