// Package command is what the programs of the benchmarks begin and end with.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a program until it is done or told to end, and exits with 1 after an error, or with the [Exit] in it.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	code, ok := errors.AsType[Exit](err)
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		code = 1
	}
	os.Exit(int(code))
}

// Exit is the error of a program that has said everything, and ends with this code.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }
