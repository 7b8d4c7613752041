// What sends the load of the benchmarks; the standard library is all that it needs.
// Nothing of it is part of the product.
module github.com/sharder/hack/bench/generator

go 1.26.0
