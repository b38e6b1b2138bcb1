// Package demo is `pawl demo`: a site with the faults of a real network, served
// on a loopback port, is carried through three topics into a file of pages.
//
//	demo.fetch   a URL per message; a lane per slot of the host, held after
//	             every request, so that no more than [Slots] requests run at once
//	demo.parse   a fetched page: emits its record, and a fetch for every link
//	             that nobody has seen (a unique key per URL)
//	demo.store   a record: emits it into demo.pages, once per URL
//	demo.pages   the results; nobody works this topic
//
// Every step emits with its ack, so a crash neither loses a page nor doubles
// one. There is no queue, retry, limiter or schedule here: all of that is below.
package demo
