// Command doorbell answers the messages of an inbox. The inbox rings, and a worker pulls from where it was: the cursor
// is a mark, and is moved by a message that is stored together with the replies. The inbox rings once more while it is
// pulled; that ring is kept: the bell is unique only until claimed. Answers are lost: each message gets one reply.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

const waiting, day = 8, 24 * time.Hour // messages in the inbox, in the end

// inbox lists the numbers of its messages above ?after=N for GET, and takes a reply to /N for POST.
type inbox struct {
	ring        func()
	pulls, last int
	replies     map[string]int // by message and idempotency key
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		reply := r.URL.Path + " " + r.Header.Get("Idempotency-Key")
		if b.replies[reply]++; b.replies[reply] == 1 {
			w.WriteHeader(http.StatusBadGateway) // the reply has come, but nobody says so
		}
		return
	}
	numbers := []int{}
	after, _ := strconv.Atoi(r.FormValue("after"))
	for n := after + 1; n <= b.last; n++ {
		numbers = append(numbers, n)
	}
	if b.last < waiting { // more comes while the list is on its way
		b.last += 2
		b.ring()
	}
	if b.pulls++; b.pulls%3 == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	must(json.NewEncoder(w).Encode(numbers))
}

func call(method, url, key string) (numbers []int, err error) {
	req, _ := http.NewRequest(method, url, nil)
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the inbox answered %s", resp.Status)
	} else if method == http.MethodGet {
		err = json.NewDecoder(resp.Body).Decode(&numbers)
	}
	return numbers, err
}

func cursor(s *sqlite.Store) string {
	have, err := s.GetMarks(context.Background(), "cursors", "inbox")
	must(err)
	return "0" + string(have["inbox"].Value) // 0, 02, 04 …
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx, peer := context.Background(), &inbox{last: 2, replies: map[string]int{}}
	server := httptest.NewServer(peer)
	dir, err := os.MkdirTemp("", "doorbell")
	must(err)
	defer os.RemoveAll(dir)
	s, err := sqlite.Open(ctx, sqlite.Config{Path: dir + "/doorbell.db"})
	must(err)
	bell := pawl.Message{Topic: "pull", Unique: pawl.Unique{Key: "inbox", For: pawl.UntilClaimed}}
	peer.ring = func() { must(store.Send(ctx, s, bell)) }
	pull := pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
		numbers, err := call(http.MethodGet, server.URL+"?after="+cursor(s), d.ID)
		for _, n := range numbers { // who pulls again before the cursor has moved emits nothing new
			m := pawl.Message{Topic: "reply", Body: fmt.Append(nil, n), Unique: pawl.Unique{Key: fmt.Sprint(n), For: day}}
			d.Emit(m, pawl.Message{Topic: "cursor", Key: []byte("inbox"), Body: m.Body})
		}
		return err
	})
	move := pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) (err error) {
		_, err = s.PutMarks(ctx, pawl.Mark{Scope: "cursors", Key: "inbox", Value: d.Body, If: pawl.AnyVersion})
		return err
	})
	reply := pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
		_, err := call(http.MethodPost, server.URL+"/"+string(d.Body), d.ID)
		return err
	})
	d, err := dispatch.New(s, dispatch.Config{UntilEmpty: true, Topics: []dispatch.Topic{
		{Name: "pull", Handler: pull, Concurrency: 1}, {Name: "reply", Handler: reply, Concurrency: 1},
		{Name: "cursor", Handler: move, Concurrency: 1, Settings: store.Declaration{Order: store.OrderKey}},
	}})
	must(err)
	peer.ring()
	must(d.Run(ctx))
	if len(peer.replies) != waiting || cursor(s) != fmt.Sprint("0", waiting) {
		log.Fatalf("replies %v, cursor %s", peer.replies, cursor(s))
	}
	fmt.Printf("%d messages got one reply each\n", waiting)
}
