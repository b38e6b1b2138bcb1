// Package replybody lets a context bound the reading of a reply over HTTP where package http does not.
package replybody

import (
	"context"
	"net/http"
)

// Bound lets ctx end the reading of the body of a reply until stop is called. The caller closes the body as usual:
//
//	defer func() { _ = reply.Body.Close() }()
//	defer replybody.Bound(ctx, reply)()
//
// Over HTTP/2, package http does not look at the context of a request while its body is still being written. The body
// of a 101 is the connection itself, which no context ends: it is closed, and the reply has none.
func Bound(ctx context.Context, reply *http.Response) (stop func() bool) {
	body := reply.Body
	if reply.StatusCode == http.StatusSwitchingProtocols {
		_ = body.Close()
		reply.Body = http.NoBody
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, func() { _ = body.Close() })
}
