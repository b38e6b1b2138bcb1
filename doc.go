// Package pawl is the vocabulary of Pawl, a delivery runtime: it brings every piece of
// background work to completion, or to a dead letter that can be read, fixed and
// replayed.
//
// One word has one meaning, here, in the command line, the console, the logs
// and the metrics:
//
//   - A message is an immutable piece of work: id, topic, key, priority, body,
//     headers, a delay and a unique key.
//   - A topic names what kind of work it is; it selects handler and settings.
//   - A lane is what keeps order: in a topic with order by key, messages with
//     the same key share a lane and are carried out one at a time, in the order
//     in which they were appended. A message without a key, and every message
//     of a topic without order, is a lane of its own.
//   - A delivery is one attempt of one message under a lease.
//   - A run is several consecutive messages of one lane under one lease.
//   - A lease is the right to settle a delivery; it ends by itself. Its [Token] fences
//     off a holder that comes too late.
//   - To append, claim, extend and settle are the verbs of a store. A delivery
//     is settled as ack, retry, dead or release.
//   - What a handler emits becomes visible with the ack of its delivery.
//   - An attempt is a delivery that was settled as failed. A rescue is a lease
//     that ended without being settled, because its worker died or hung.
//
// A handler is a [Handler]; package dispatch runs it over a store of package
// store. This package imports the standard library only, and nothing of ours.
package pawl
