package pipeline

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// Serve serves h at an address until ctx ends, and lets requests under way finish. An address that another process has
// is tried every second: this process may be about to replace it. changed is told when that begins to fail, and with
// nil when the address is served.
func Serve(ctx context.Context, address string, h http.Handler, changed func(error)) {
	for failing := false; ctx.Err() == nil; {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil {
			failing = false
			changed(nil)
			err = serve(ctx, l, h)
		}
		if ctx.Err() != nil {
			return
		}
		if !failing {
			changed(err)
		}
		failing = true
		_ = store.Sleep(ctx, time.Second)
	}
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(end)
	})
	defer stop()
	return s.Serve(l)
}
