// Package enginetest is the fifth layer of the suite: the real dispatcher on a
// store. A backend's test calls [Run] with the harness that it gives to
// storetest:
//
//	func TestEngine(t *testing.T) { enginetest.Run(t, harness()) }
//
// Time is real here, because sockets and files know no other: leases that are
// to end are short, and what is to happen is waited for. Random durations print their seed.
package enginetest
