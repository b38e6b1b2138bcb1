package serve

import (
	"context"
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

// storeTime is how long a further store of the console may take to open.
const storeTime = 30 * time.Second

// openConsole puts the console beside the routes of the API.
func (d *Door) openConsole(c *DoorConfig) error {
	if !c.Console.Enabled {
		return nil
	}
	conf := console.Config{API: d.api, BasePath: c.API.BasePath + "/console", ReadOnly: c.Console.ReadOnly,
		Title: c.Console.Title, Color: c.Console.Color, Trace: c.Console.Trace,
		Prometheus: c.Console.Prometheus, Waits: c.Waits}
	for i, s := range c.Console.Stores {
		ctx, cancel := context.WithTimeout(context.Background(), storeTime)
		opened, err := open.Open(ctx, open.Config{URL: s.URL, Existing: true, Logger: c.Logger})
		cancel()
		if err != nil {
			c.Logger.Warn("a store of the console cannot be opened; it is not shown", "store", s.Name, "error", err)
			continue
		}
		d.stores = append(d.stores, opened)
		conf.Stores = append(conf.Stores,
			console.Named{Name: s.Name, Color: shopColors[i%len(shopColors)], Store: opened})
	}
	var err error
	if d.console, err = console.New(conf); err != nil {
		return err
	}
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
