package console

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/api"
)

// Bounds of live pages.
const (
	maxReaders = 4096
	tickEvery  = 2 * time.Second
	keepAlive  = 20 * time.Second
	writeTime  = 10 * time.Second
)

// readers counts the tabs that are told of changes.
type readers struct{ n atomic.Int32 }

// live is the stream of a tab. It says that the figures changed, not how: the tab asks for its page again.
func (k *Console) live(s *site) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, err := k.caller(r)
		if err != nil || !caller.May(api.Viewer) {
			http.Error(w, "not for you", http.StatusForbidden)
			return
		}
		if k.readers.n.Add(1) > maxReaders {
			k.readers.n.Add(-1)
			w.Header().Set("Retry-After", "30")
			http.Error(w, "too many tabs are open; this one asks from time to time", http.StatusTooManyRequests)
			return
		}
		defer k.readers.n.Add(-1)
		h, control := w.Header(), http.NewResponseController(w)
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no")
		say := func(text string) bool {
			_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // where there is none, it does without
			_, err := w.Write([]byte(text))
			return err == nil && control.Flush() == nil
		}
		next, leave := s.figures.watch()
		defer leave()
		quiet := time.NewTicker(keepAlive)
		defer quiet.Stop()
		changed := next()
		for said := say(": \n\n"); said; {
			select {
			case <-changed:
				changed = next()
				said = say("event: tick\ndata: \n\n")
			case <-quiet.C:
				_, err := k.caller(r) // the session may have ended
				said = err == nil && say(": \n\n")
			case <-r.Context().Done():
				return
			case <-k.ctx.Done():
				return
			}
		}
	}
}
