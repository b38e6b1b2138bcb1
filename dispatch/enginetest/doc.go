// Package enginetest is the fifth layer of the suite: the real dispatcher on a
// store. A backend's test calls [Run] with the harness that it gives to
// storetest:
//
//	func TestEngine(t *testing.T) { enginetest.Run(t, harness()) }
//
// Time is real here, because sockets and files need real time: leases that are to end are
// short, and the scenarios wait for what is to happen. Random durations print their seed.
package enginetest
