package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Config configures a simulator. Zero fields have the values of the examples.
type Config struct {
	CorpID, Secret, Token, AESKey string
	Accounts                      []string
	// Callback is the URL that is called; empty: none.
	Callback string
	Seed     uint64
	// JSON sends callbacks as JSON in place of XML.
	JSON bool
}

// What the examples are configured with.
const (
	CorpID  = "ww0123456789abcdef"
	Secret  = "sim-secret"
	Token   = "simtoken"
	AESKey  = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
	Account = "wk-sim-1"
)

// Times of the protocol.
const (
	tokenLife    = 7200 * time.Second
	msgTokenLife = 10 * time.Minute
	retention    = 72 * time.Hour
	window       = 48 * time.Hour
	welcomeLife  = 20 * time.Second
	budget       = 5
)

// Server is a simulator. It is an http.Handler.
type Server struct {
	config Config
	key    []byte
	mux    *http.ServeMux

	mu       sync.Mutex
	rand     *rand.Rand
	faults   faults
	ahead    time.Duration // of the clock
	accounts map[string][]item
	users    map[string]*user // by account and user
	access   map[string]time.Time
	calls    int // with the access token, since it was made
	bells    map[string]time.Time
	minute   map[string][]time.Time
	running  map[string]int
	counts   map[string]int // of answers, by API and code
	next     int
	msgIDs   map[string]bool
	sent     []Sent
	codes    map[string]time.Time // of welcomes
	pending  sync.WaitGroup       // callbacks under way
}

// item is a message or event that sync_msg returns.
type item struct {
	at   time.Time
	body map[string]any
}

type user struct {
	last  time.Time // of its last message
	sent  int       // since then
	state int
}

// Sent is a message that was sent to a user.
type Sent struct {
	MsgID   string          `json:"msgid"`
	User    string          `json:"touser"`
	Account string          `json:"open_kfid"`
	Type    string          `json:"msgtype"`
	At      time.Time       `json:"at"`
	Body    json.RawMessage `json:"body"`
}

// New makes a simulator.
func New(c Config) (*Server, error) {
	c.CorpID, c.Secret = cmp.Or(c.CorpID, CorpID), cmp.Or(c.Secret, Secret)
	c.Token, c.AESKey = cmp.Or(c.Token, Token), cmp.Or(c.AESKey, AESKey)
	if len(c.Accounts) == 0 {
		c.Accounts = []string{Account}
	}
	key, err := base64.StdEncoding.DecodeString(c.AESKey + "=")
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("the AES key has 43 letters and digits")
	}
	s := &Server{
		config: c, key: key, rand: rand.New(rand.NewPCG(c.Seed, 1)), faults: faults{}, accounts: map[string][]item{}, //nolint:gosec // chance that repeats itself
		users: map[string]*user{}, access: map[string]time.Time{}, bells: map[string]time.Time{},
		minute:  map[string][]time.Time{},
		running: map[string]int{}, counts: map[string]int{}, msgIDs: map[string]bool{}, codes: map[string]time.Time{},
	}
	for _, id := range c.Accounts {
		s.accounts[id] = []item{}
	}
	s.mux = http.NewServeMux()
	s.routes()
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// now is the clock of the simulator. The lock is held.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// id makes an id that repeats itself with the seed. The lock is held.
func (s *Server) id(prefix string) string {
	s.next++
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d", s.config.Seed, s.next))
	return prefix + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// Say has a user write a text, and rings.
func (s *Server) Say(accountID, userID, text string) (msgID string) {
	s.mu.Lock()
	msgID = s.id("msg")
	s.add(accountID, userID, map[string]any{
		"msgid": msgID, "open_kfid": accountID, "external_userid": userID, "origin": 3, "msgtype": "text",
		"text": map[string]any{"content": text},
	})
	s.mu.Unlock()
	s.Ring(accountID)
	return msgID
}

// add appends an item. The lock is held.
func (s *Server) add(accountID, userID string, body map[string]any) {
	now := s.now()
	body["send_time"] = now.Unix()
	s.accounts[accountID] = append(s.accounts[accountID], item{at: now, body: body})
	if body["origin"] == 3 {
		u := s.user(accountID, userID)
		u.last, u.sent = now, 0
	}
}

// user is the session of a user with an account. The lock is held.
func (s *Server) user(accountID, userID string) *user {
	key := accountID + "/" + userID
	if s.users[key] == nil {
		s.users[key] = &user{}
	}
	return s.users[key]
}

// Advance moves the clock.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// Sent returns what was sent, in order.
func (s *Server) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// Counts returns how often an API answered with a code, as "API CODE".
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// SetCallback sets the URL that is called.
func (s *Server) SetCallback(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.Callback = url
}

// Wait waits for callbacks that are under way.
func (s *Server) Wait() { s.pending.Wait() }
