// Package sim is a stand-in for the Bot API of Telegram, for tests and for trying the pipeline out. It has
// the limits that Telegram publishes and faults that can be switched on, and reports what really happened.
// Telegram's real limits are not published, and its answers may differ in words.
package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// BotName is the name of every bot here, and BotID its number.
const (
	BotName       = "pawl_sim_bot"
	BotID   int64 = 777
)

// Admin is a user who is an administrator of every chat, Member one who is not.
const (
	Admin  int64 = 1001
	Member int64 = 2001
)

// FirstChat is the first group; the others follow downwards.
const FirstChat int64 = -1000000000001

// Config says how the simulator behaves.
type Config struct {
	Chats  int  // groups; 0 is 10
	Limits bool // the published ones
	Seed   uint64
	Faults Faults
}

// Faults are what goes wrong.
type Faults struct {
	Throttle float64         // probability that a message is answered 429
	Fail     float64         // that a call is answered 500
	Drop     float64         // that a call is carried out and its connection cut
	Latency  time.Duration   // of every call
	Blocked  map[int64]bool  // chats that refuse the bot
	Moved    map[int64]int64 // groups that became supergroups
	Revoked  bool            // the token is refused
	Refuse   string          // a method that is answered 400
}

// Server is the simulator. It is an http.Handler.
type Server struct {
	config   Config
	controls *http.ServeMux

	mu       sync.Mutex
	random   *rand.Rand
	chats    map[int64]*Chat
	members  map[[2]int64]string
	updates  []json.RawMessage
	ids      []int64 // of updates
	nextID   int64
	wake     chan struct{}
	poll     chan struct{} // closed when another getUpdates takes over
	webhook  string
	secret   string
	hooking  bool
	sent     []Sent
	arrivals arrivals
	truth    Truth
}

// Chat is a chat.
type Chat struct {
	ID       int64  `json:"id"`
	Type     string `json:"type"`
	Title    string `json:"title,omitempty"`
	First    string `json:"first_name,omitempty"`
	last     int64
	messages map[int64]json.RawMessage
}

// Sent is a message that the bot put into a chat.
type Sent struct {
	At       time.Time `json:"at"`
	Method   string    `json:"method"`
	Chat     int64     `json:"chat"`
	ID       int64     `json:"message_id"`
	Thread   int64     `json:"thread,omitempty"`
	From     int64     `json:"from_chat,omitempty"`
	Original int64     `json:"original,omitempty"`
	Text     string    `json:"text"`
	Group    string    `json:"group,omitempty"` // parts of one album have the same
}

// Truth is what really happened.
type Truth struct {
	Calls     map[string]int `json:"calls"`
	Updates   int            `json:"updates"`   // that were made
	Confirmed int            `json:"confirmed"` // that the bot confirmed
	Sent      int            `json:"sent"`
	Edited    int            `json:"edited"`
	OverLimit int            `json:"over_limit"` // messages that were beyond a limit, and refused
	Dropped   int            `json:"dropped"`    // calls that were carried out and not answered
	Twice     int            `json:"twice"`      // messages that are in a target more than once
	// PerSecond is the largest number of messages in any second, PerChat of one chat in any second, PerGroup
	// of one group in any minute.
	PerSecond int    `json:"per_second"`
	PerChat   int    `json:"per_chat"`
	PerGroup  int    `json:"per_group"`
	Messages  []Sent `json:"messages,omitempty"`
}

// New makes a simulator.
func New(c Config) *Server {
	s := &Server{
		config: c, random: rand.New(rand.NewPCG(c.Seed, 1)), chats: map[int64]*Chat{}, members: map[[2]int64]string{},
		nextID: 1000, wake: make(chan struct{}), truth: Truth{Calls: map[string]int{}},
		arrivals: arrivals{chats: map[int64][]time.Time{}},
	}
	s.config.Chats = cmp.Or(s.config.Chats, 10)
	s.controls = s.routes()
	for i := range s.config.Chats {
		s.AddChat(Chat{ID: FirstChat - int64(i), Type: "supergroup", Title: fmt.Sprintf("Group %d", i+1)})
	}
	s.AddChat(Chat{ID: Admin, Type: "private", First: "Ann"})
	s.AddChat(Chat{ID: Member, Type: "private", First: "Bob"})
	return s
}

// answer is an error of the Bot API.
type answer struct {
	code        int
	description string
	parameters  map[string]any
}

func refuse(code int, text string) *answer { return &answer{code: code, description: text} }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, method, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/bot"), "/")
	if !ok || !strings.HasPrefix(r.URL.Path, "/bot") {
		s.controls.ServeHTTP(w, r)
		return
	}
	params := map[string]any{}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &params)
	}
	if err != nil {
		reply(w, nil, refuse(400, "Bad Request: the body is no JSON"))
		return
	}
	if method == "getUpdates" {
		s.getUpdates(w, r, params)
		return
	}
	if wait := s.latency(); wait > 0 {
		time.Sleep(wait)
	}
	result, no, drop := s.call(method, params)
	if drop {
		panic(http.ErrAbortHandler) // which cuts the connection
	}
	reply(w, result, no)
}

func (s *Server) latency() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config.Faults.Latency
}

func reply(w http.ResponseWriter, result any, no *answer) {
	if no == nil {
		write(w, http.StatusOK, map[string]any{"ok": true, "result": result})
		return
	}
	doc := map[string]any{"ok": false, "error_code": no.code, "description": no.description}
	if no.parameters != nil {
		doc["parameters"] = no.parameters
	}
	write(w, no.code, doc)
}

func write(w http.ResponseWriter, status int, v any) {
	b, _ := json.Marshal(v) // before it is changed concurrently
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// call carries out a method; drop tells that its answer gets lost.
func (s *Server) call(method string, p map[string]any) (result any, no *answer, drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.truth.Calls[method]++
	f := &s.config.Faults
	switch {
	case f.Revoked:
		return nil, refuse(401, "Unauthorized"), false
	case f.Refuse == method:
		return nil, refuse(400, "Bad Request: "+method+" is refused here"), false
	case s.chance(f.Fail):
		return nil, refuse(500, "Internal Server Error"), false
	}
	switch method {
	case "getMe":
		result = map[string]any{"id": BotID, "is_bot": true, "first_name": "Sim", "username": BotName,
			"can_read_all_group_messages": true}
	case "setMyCommands":
		result = true
	case "setWebhook":
		s.webhook, _ = p["url"].(string)
		s.secret, _ = p["secret_token"].(string)
		s.pushAll()
		result = true
	case "deleteWebhook":
		s.webhook = ""
		result = true
	case "getChat":
		var c *Chat
		if c, no = s.chat(number(p["chat_id"])); c != nil {
			result = *c
		}
	case "getChatMember":
		result, no = s.getMember(number(p["chat_id"]), number(p["user_id"]))
	case "sendMessage", "forwardMessage", "copyMessage", "forwardMessages", "copyMessages":
		result, no = s.send(method, p)
	case "editMessageText", "editMessageCaption":
		result, no = s.edit(p)
	default:
		no = refuse(404, "Not Found")
	}
	if no == nil && s.chance(f.Drop) {
		s.truth.Dropped++
		return nil, nil, true
	}
	return result, no, false
}

func (s *Server) chance(p float64) bool { return p > 0 && s.random.Float64() < p }

func number(v any) int64 {
	switch n := v.(type) {
	case float64:
		return int64(n)
	case string:
		i, _ := strconv.ParseInt(n, 10, 64)
		return i
	}
	return 0
}

func (s *Server) chat(id int64) (*Chat, *answer) {
	if c := s.chats[id]; c != nil {
		return c, nil
	}
	return nil, refuse(400, "Bad Request: chat not found")
}

func (s *Server) getMember(chat, user int64) (any, *answer) {
	if _, no := s.chat(chat); no != nil {
		return nil, no
	}
	status := s.members[[2]int64{chat, user}]
	switch {
	case status != "":
	case user == Admin:
		status = "administrator"
	case user == Member:
		status = "member"
	default:
		return nil, refuse(400, "Bad Request: user not found")
	}
	return map[string]any{"status": status, "user": map[string]any{"id": user, "is_bot": false, "first_name": "U"}}, nil
}

// Truth tells what happened so far, with all messages or without.
func (s *Server) Truth(messages bool) Truth {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.truth
	t.Calls = maps.Clone(s.truth.Calls)
	t.Sent, t.PerSecond, t.PerChat, t.PerGroup = len(s.sent), s.arrivals.all.most, s.arrivals.perChat,
		s.arrivals.perGroup
	seen := map[[3]int64]bool{}
	for _, m := range s.sent {
		key := [3]int64{m.Chat, m.From, m.Original}
		if m.From != 0 && seen[key] {
			t.Twice++
		}
		seen[key] = true
	}
	if messages {
		t.Messages = slices.Clone(s.sent)
	}
	return t
}
