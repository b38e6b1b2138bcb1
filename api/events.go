package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/observe"
)

// Bounds of GET /v1/events.
const (
	maxBehind  = 500 // events that wait for a reader
	maxReaders = 32
	keepAlive  = 15 * time.Second
)

// events is GET /v1/events: what happens, as server-sent events. An id is of one run of a process:
// for one that is not known here, or too old, the stream begins with a gap.
func (x *exchange) events() error {
	board := x.api.config.Board
	if board == nil {
		return notFound("this program keeps no events")
	}
	if x.api.readers.Add(1) > maxReaders {
		x.api.readers.Add(-1)
		return &Problem{Status: http.StatusTooManyRequests, Title: "too many readers",
			Detail: fmt.Sprintf("%d follow the events already", maxReaders), after: 10 * time.Second}
	}
	defer x.api.readers.Add(-1)
	newest, watcher := board.Subscribe(maxBehind)
	defer watcher.Close()
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	x.w.WriteHeader(http.StatusOK)
	if err := x.replay(newest); err != nil {
		return nil
	}
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	missed := watcher.Missed()
	for {
		var err error
		select {
		case e := <-watcher.Events():
			err = x.mayFollow()
			if now := watcher.Missed(); err == nil && now != missed {
				missed, err = now, x.say("event: gap\ndata: {}\n\n")
			}
			if err == nil {
				err = x.tell(&e)
			}
		case <-tick.C:
			if err = x.mayFollow(); err == nil {
				err = x.say(": \n\n")
			}
		case <-x.r.Context().Done():
			return nil
		case <-x.api.waits.Done():
			return nil
		}
		if err != nil {
			return nil
		}
	}
}

// mayFollow refuses who may no longer read: the token may be gone since, or of less.
func (x *exchange) mayFollow() error {
	if err := x.api.admit(x); err != nil {
		return err
	}
	if x.caller.may&doRead == 0 {
		return forbidden(x.caller.name + " may not do this")
	}
	return x.needWhole()
}

// replay tells what came after the last event that the client knows.
func (x *exchange) replay(newest []observe.Envelope) error {
	last := x.r.Header.Get("Last-Event-ID")
	if last == "" {
		return x.say(": \n\n")
	}
	boot, number, _ := strings.Cut(last, "-")
	seq, err := strconv.ParseUint(number, 10, 64)
	known := boot == x.api.boot && err == nil && (len(newest) == 0 || seq+1 >= newest[0].Seq)
	if !known {
		if err := x.say("event: gap\ndata: {}\n\n"); err != nil {
			return err
		}
		seq = 0
	}
	for i := range newest {
		if newest[i].Seq > seq {
			if err := x.tell(&newest[i]); err != nil {
				return err
			}
		}
	}
	return x.say(": \n\n")
}

func (x *exchange) tell(e *observe.Envelope) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return x.say(fmt.Sprintf("id: %s-%d\ndata: %s\n\n", x.api.boot, e.Seq, b))
}

func (x *exchange) say(text string) error {
	_ = x.control.SetWriteDeadline(time.Now().Add(stallTime))
	if _, err := x.w.Write([]byte(text)); err != nil {
		return err
	}
	return x.control.Flush()
}
