package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/internal/demo/site"
)

// siteName is the name under which the site is crawled. It stands for the loopback
// port, which is another one after a restart: URLs must outlive it.
const siteName = "docs.pawl.test"

// host is the site on a loopback port.
type host struct {
	site   *site.Site
	server *http.Server
	url    string // of the port
}

// serve opens the site and serves it until close.
func serve(ctx context.Context, run Run) (*host, error) {
	s, err := site.New(site.Options{Pages: run.Pages, Seed: run.Seed, Faults: site.DefaultFaults()})
	if err != nil {
		return nil, fmt.Errorf("make the site: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the site: %w", err)
	}
	h := &host{site: s, url: "http://" + l.Addr().String(), server: &http.Server{Handler: s,
		ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = h.server.Serve(l) }() // ends with close
	return h, nil
}

func (h *host) close() { _ = h.server.Close() }

// page is the URL of a path of the site.
func page(path string) string { return "http://" + siteName + path }
