// Package dispatch is the runtime: it claims deliveries from a store, carries
// them out by handlers, lets the policy decide about failures, and settles.
//
//	d, err := dispatch.New(s, dispatch.Config{
//		Topics: []dispatch.Topic{{Name: "mail", Handler: mail, Concurrency: 16}},
//	})
//	…
//	err = d.Run(ctx) // until ctx ends; then it drains
//
// # What it promises to a handler
//
// Deliveries of one lane are carried out one after the other, in their order. Of all
// deliveries held by the process, the one with the best rank is started next. The
// handler's context ends when the lease is lost, when the hard deadline has passed or
// when the process must stop. A panic is a failure like any other.
//
// # What it promises to a store
//
// It holds no more deliveries than it can soon carry out, and keeps their leases. It
// starts none whose lease has run out by its own monotonic clock, settles in batches
// that it repeats under their batch id, and gives back deliveries that it did not
// start.
//
// # Cost
//
// Between claim and settle a message costs no goroutine, no timer and no
// channel operation of its own, and one lock.
package dispatch
