// Package pipe is a handler that keeps programs running. It hands each of them
// deliveries, a line of JSON on stdin, and takes a verdict for each from stdout, in
// any order. A program that ends is started again; what it held is given to a
// fresh one.
//
// An example:
//
//	l, err := handler.NewLauncher()
//	…
//	defer l.Close()
//	p := pipe.Start(pipe.Config{Launcher: l, Command: "./worker", Children: 4})
//	defer p.Close()
package pipe
