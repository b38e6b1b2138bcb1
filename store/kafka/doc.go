// Package kafka is a store in the topics of a Kafka cluster: a consumer group and
// the commit gate keep the contract of package store, as far as a log can.
//
// # How it works
//
// A topic of Pawl is a topic of the cluster, a message is a record of it. Append produces, with
// all in-sync replicas, idempotently. A claim hands out what this process, a member of the
// group, has fetched: the messages of one key of a partition are a lane, in which one is
// carried out after the other; lanes are independent of one another. An ack marks its offset in
// the gate of its partition (package gate), and only the contiguous prefix of finished offsets
// is committed. The metadata of the commit lists the finished offsets above it: so a crash
// repeats the work finished since the last commit, a second by default, and nothing more.
//
// A retry, a release and a hold wait in their lane, in this process. A dead letter is written
// to a topic of its own before its message counts as finished. Emitted messages are produced
// before the ack, under ids that derive from the parent's.
//
// # Assignments
//
// Everything about a partition belongs to its assignment, from when it was given to this
// process until it is taken away. Then nothing more is begun; running handlers get
// [Consuming.Drain] to finish; finished work is committed; and the assignment is over: later
// acks change nothing, because their tokens are stale. If the partition comes back while a
// handler of the earlier assignment still runs, the lane of that key waits for it. If another
// process has it, the two may overlap for that one message: a handler can hand its token
// downstream as a fence.
//
// # Crashes
//
// Before the first message of an assignment is carried out a commit says so. The process
// that gets the partition of one that died finds that commit open, and counts the death.
// One death is no evidence. After two in a row the partition carries out 32 lanes at a
// time, up to a little beyond what had been handed out; after three it carries out four,
// which the commit names before they begin. If the process dies, the messages that such a
// commit names are carried out alone. After that the process is wary for a while:
// deaths are still in a row, and each claim is on record before it is carried out. So a
// message that kills its process is found, however quick it is, and after three deaths
// alone it is a dead letter.
//
// # Settings, pauses, state
//
// They are in the topic [Config.StateTopic], a log of requested changes that every process
// evaluates in the same way. Processes shorten it: they write a snapshot of the state into it,
// and delete the records before the second-to-last snapshot.
package kafka
