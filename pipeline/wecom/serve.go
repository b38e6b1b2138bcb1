package wecom

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// serve listens until ctx ends or it fails.
func (b *bridge) serve(ctx context.Context, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", b.section.Text("listen"))
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.deaf = ""
	b.mu.Unlock()
	b.env.Logger.Info("the callback listens", "listen", l.Addr().String(), "path", b.section.Text("path"))
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(end)
	})
	defer stop()
	return s.Serve(l)
}

// health is asked every few seconds.
func (b *bridge) health(context.Context) pipeline.Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := pipeline.Health{LastSuccess: b.last}
	for _, why := range []string{b.halted, b.storing, b.deaf, b.client.limited(), b.figures.late()} {
		if why != "" && h.Degraded == "" {
			h.Degraded = why
		}
	}
	return h
}

// doctor looks for problems.
func doctor(ctx context.Context, env pipeline.Env) []pipeline.Finding {
	marks, ok := store.As[store.Marks](env.Store)
	if !ok {
		return nil
	}
	var all []pipeline.Finding
	for id, a := range accountsOf(marks, env.Name).all(ctx) {
		if a.Parked != "" {
			all = append(all, pipeline.Finding{Problem: "account " + id + " is parked: " + a.Parked,
				Next: "pawl wecom pull " + id, Warning: true})
		}
		if age := time.Since(a.Fresh); !a.Fresh.IsZero() && a.Parked == "" && age > cursorLate {
			all = append(all, pipeline.Finding{
				Problem: "account " + id + " was last pulled to its end " + age.Round(time.Minute).String() +
					" ago; WeCom forgets messages after three days",
				Next: "pawl wecom status",
			})
		}
	}
	return all
}
