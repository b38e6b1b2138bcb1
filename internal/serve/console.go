package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/console"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// shopColors tell the further stores of a console apart.
var shopColors = []string{"#1d4ed8", "#b45309", "#7c3aed", "#be123c", "#15803d", "#a16207"}

// storeTime is how long a further store of the console may take to open, storeWait how long the start waits for that,
// and storeAgain after what time it is tried again.
const (
	storeTime  = 30 * time.Second
	storeWait  = 2 * time.Second
	storeAgain = 10 * time.Second
)

// openStores opens the further stores of the console, until ctx ends. One that is away is shown when it is there: what
// is carried out does not wait for it longer than storeWait.
func (d *Door) openStores(ctx context.Context, c *DoorConfig) {
	tried := make(chan struct{}, len(c.Console.Stores))
	for _, s := range c.Console.Stores {
		d.wg.Go(func() {
			for n := 0; n == 0 || store.Sleep(ctx, cmp.Or(c.again, storeAgain)) == nil; n++ {
				err := d.openShown(ctx, s.Name, s.URL, c.Logger)
				if err != nil && n == 0 && ctx.Err() == nil {
					c.Logger.Warn("a store of the console cannot be opened; it is shown when it can", "store", s.Name,
						"error", err)
				} else if err == nil && n > 0 {
					c.Logger.Info("a store of the console is shown", "store", s.Name)
				}
				if n == 0 {
					tried <- struct{}{}
				}
				if err == nil {
					return
				}
			}
		})
	}
	late := time.After(storeWait)
	for range c.Console.Stores {
		select {
		case <-tried:
		case <-late:
			return
		}
	}
}

func (d *Door) openShown(ctx context.Context, name, url string, logger *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	opened, err := open.Open(ctx, open.Config{URL: url, Existing: true, Logger: logger})
	if err != nil {
		return err
	}
	if err := d.console.Open(name, opened); err != nil {
		return errors.Join(err, opened.Close())
	}
	d.mu.Lock()
	d.stores = append(d.stores, opened)
	d.mu.Unlock()
	return nil
}

// openConsole puts the console beside the routes of the API.
func (d *Door) openConsole(ctx context.Context, c *DoorConfig) error {
	if !c.Console.Enabled {
		return nil
	}
	conf := console.Config{API: d.api, BasePath: c.API.BasePath + "/console", ReadOnly: c.Console.ReadOnly,
		Title: c.Console.Title, Color: c.Console.Color, Trace: c.Console.Trace,
		Prometheus: c.Console.Prometheus, Waits: c.Waits}
	for i, s := range c.Console.Stores {
		conf.Stores = append(conf.Stores, console.Named{Name: s.Name, Color: shopColors[i%len(shopColors)]})
	}
	var err error
	if d.console, err = console.New(conf); err != nil {
		return err
	}
	d.openStores(ctx, c)
	routes := d.server.Handler
	d.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == conf.BasePath || strings.HasPrefix(r.URL.Path, conf.BasePath+"/") {
			d.console.ServeHTTP(w, r)
			return
		}
		routes.ServeHTTP(w, r)
	})
	return nil
}

// Link is the address of the console, for the holder of a token: it opens a session once. Without a secret it is that
// of the first page.
func (d *Door) Link(secret string) string {
	at := "http://" + d.Address()
	if secret == "" {
		return at + d.console.Base() + "/"
	}
	return at + d.console.Link(secret)
}

// Show serves a console of s that changes nothing, for this machine, and returns its address, until end is called.
func Show(s store.Store) (link string, end func(), err error) {
	k, err := console.New(console.Config{Store: s, BasePath: "/console", ReadOnly: true})
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.Close()
		return "", nil, err
	}
	server := &http.Server{Handler: k, ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with end
	}()
	return "http://" + l.Addr().String() + k.Base() + "/", func() {
		k.EndWaits()
		_ = server.Close()
		<-done
		k.Close()
	}, nil
}
