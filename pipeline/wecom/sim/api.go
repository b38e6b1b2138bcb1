package sim

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is an answer of the API.
type answer map[string]any

func code(n int, text string) answer { return answer{"errcode": n, "errmsg": text} }

func ok(members answer) answer {
	members["errcode"], members["errmsg"] = 0, "ok"
	return members
}

// routes are the API, and the control of the simulator.
func (s *Server) routes() {
	s.mux.HandleFunc("GET /cgi-bin/gettoken", s.getToken)
	for api, do := range map[string]func(map[string]any, []byte) answer{
		"kf/account/list": s.list, "kf/sync_msg": s.sync, "kf/send_msg": s.send, "kf/send_msg_on_event": s.welcome,
		"kf/service_state/trans": s.move,
		"kf/service_state/get":   s.stateOf,
	} {
		s.mux.HandleFunc("POST /cgi-bin/"+api, func(w http.ResponseWriter, r *http.Request) { s.call(w, r, api, do) })
	}
	s.mux.HandleFunc("GET /cgi-bin/media/get", s.media)
	s.mux.HandleFunc("GET /cgi-bin/getcallbackip", func(w http.ResponseWriter, _ *http.Request) {
		write(w, ok(answer{"ip_list": []string{"127.0.0.1"}}))
	})
	s.control()
}

func write(w http.ResponseWriter, a any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(a)
}

func (s *Server) count(api string, a answer) {
	n, _ := a["errcode"].(int)
	s.counts[api+" "+strconv.Itoa(n)]++
}

func (s *Server) getToken(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	q, a := r.URL.Query(), answer(nil)
	switch {
	case q.Get("corpid") != s.config.CorpID:
		a = code(40013, "invalid corpid")
	case q.Get("corpsecret") != s.config.Secret || s.faults["bad_secret"] > 0:
		a = code(40001, "invalid credential")
	default:
		a = s.issue()
	}
	s.count("gettoken", a)
	s.mu.Unlock()
	write(w, a)
}

// issue returns the token that is valid, or a new one. The lock is held.
func (s *Server) issue() answer {
	for token, end := range s.access {
		if left := end.Sub(s.now()); left > 0 {
			return ok(answer{"access_token": token, "expires_in": int(left.Seconds())})
		}
		delete(s.access, token)
	}
	token := s.id("access")
	s.access[token], s.calls = s.now().Add(tokenLife), 0
	return ok(answer{"access_token": token, "expires_in": int(tokenLife.Seconds())})
}

// call checks what is the same for every API, and answers.
func (s *Server) call(w http.ResponseWriter, r *http.Request, api string, do func(map[string]any, []byte) answer) {
	var in map[string]any
	var raw json.RawMessage
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20)).Decode(&raw) != nil || json.Unmarshal(raw, &in) != nil {
		write(w, code(47001, "data format error"))
		return
	}
	s.mu.Lock()
	s.running[api]++
	a := s.admit(api, r.URL.Query().Get("access_token"))
	s.mu.Unlock()
	switch api {
	case "kf/sync_msg":
		s.delay("sync_delay")
	case "kf/send_msg":
		s.delay("send_delay")
	}
	s.mu.Lock()
	if a == nil {
		a = do(in, raw)
	}
	s.running[api]--
	s.count(api, a)
	lost := api == "kf/send_msg" && a["errcode"] == 0 && s.chance("send_lost")
	s.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler)
	}
	write(w, a)
}

// admit refuses a call, or returns nil. The lock is held.
func (s *Server) admit(api, token string) answer {
	if token == "" {
		return code(41001, "access_token missing")
	}
	end, known := s.access[token]
	if !known {
		return code(40014, "invalid access_token")
	}
	if s.now().After(end) {
		return code(42001, "access_token expired")
	}
	if n := s.faults["errcode"]; n > 0 {
		return code(int(n), "the simulator was told to say so")
	}
	s.calls++
	if n := s.faults["token_early"]; n > 0 && float64(s.calls) > n {
		delete(s.access, token)
		return code(40014, "invalid access_token")
	}
	if n := s.faults["concurrency"]; n > 0 && float64(s.running[api]) > n {
		return code(45033, "api concurrency out of limit")
	}
	if s.over(api, s.faults["limit"]) {
		return code(45009, "api freq out of limit")
	}
	if s.chance("busy") {
		return code(-1, "system busy")
	}
	return nil
}

// over counts a call within a minute. The lock is held.
func (s *Server) over(what string, limit float64) bool {
	if limit <= 0 {
		return false
	}
	now := s.now()
	recent := s.minute[what][:0]
	for _, at := range s.minute[what] {
		if now.Sub(at) < time.Minute {
			recent = append(recent, at)
		}
	}
	s.minute[what] = append(recent, now)
	return float64(len(recent)) >= limit
}

func (s *Server) list(in map[string]any, _ []byte) answer {
	offset, limit := int(number(in["offset"])), int(number(in["limit"]))
	all := []answer{}
	for i, id := range slices.Sorted(maps.Keys(s.accounts)) {
		if i >= offset && len(all) < limit {
			all = append(all, answer{"open_kfid": id, "name": id, "manage_privilege": true})
		}
	}
	return ok(answer{"account_list": all})
}

func number(v any) float64 { n, _ := v.(float64); return n }
func text(v any) string    { t, _ := v.(string); return t }

// sync is sync_msg. A cursor is the number of items before it; it is opaque to others.
func (s *Server) sync(in map[string]any, _ []byte) answer {
	items, known := s.accounts[text(in["open_kfid"])]
	if !known {
		return code(95000, "invalid open_kfid")
	}
	if token := text(in["token"]); token != "" {
		end, known := s.bells[token]
		if !known || s.now().After(end) || s.chance("msgtoken_early") {
			return code(95007, "invalid msg token")
		}
	} else if s.over("sync_msg without token", s.faults["sync_limit"]) {
		return code(45009, "api freq out of limit")
	}
	from := 0
	if cursor := text(in["cursor"]); cursor != "" {
		n, err := strconv.ParseInt(strings.TrimPrefix(cursor, "cur"), 36, 64)
		if err != nil || int(n) > len(items) {
			return code(40058, "invalid cursor")
		}
		from = int(n)
	}
	for from < len(items) && s.now().Sub(items[from].at) > retention {
		from++
	}
	limit := int(number(in["limit"]))
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	if n := int(s.faults["short_pages"]); n > 0 {
		limit = min(limit, n)
	}
	to := min(len(items), from+limit)
	if from < len(items) && s.chance("empty_pages") {
		to = from
	}
	list := []map[string]any{}
	for _, it := range items[from:to] {
		list = append(list, it.body)
	}
	more := 0
	if to < len(items) {
		more = 1
	}
	return ok(answer{"next_cursor": "cur" + strconv.FormatInt(int64(to), 36), "has_more": more, "msg_list": list})
}

// send is send_msg.
func (s *Server) send(in map[string]any, raw []byte) answer {
	accountID, userID, msgID := text(in["open_kfid"]), text(in["touser"]), text(in["msgid"])
	if s.accounts[accountID] == nil {
		return code(95000, "invalid open_kfid")
	}
	if given, is := in["msgid"]; is && !regexp.MustCompile(`^[0-9A-Za-z_-]{1,32}$`).MatchString(text(given)) {
		return code(40058, "invalid msgid")
	}
	if s.msgIDs[accountID+"/"+msgID] && msgID != "" {
		n := int(s.faults["duplicate_errcode"])
		if n == 0 {
			n = 95099
		}
		return code(n, "msgid exists")
	}
	u := s.user(accountID, userID)
	state := u.state
	if n := int(s.faults["state"]); n > 0 {
		state = n
	}
	switch {
	case u.last.IsZero():
		return code(84061, "no external relation")
	case state > 1:
		return code(95018, "session state forbids to send")
	case s.now().Sub(u.last) > window:
		return code(95002, "over 48 hours")
	case u.sent >= budget:
		return code(95001, "over 5 messages")
	}
	if msgID == "" {
		msgID = s.id("out")
	}
	u.sent++
	s.msgIDs[accountID+"/"+msgID] = true
	s.sent = append(s.sent, Sent{MsgID: msgID, User: userID, Account: accountID, Type: text(in["msgtype"]), At: s.now(),
		Body: raw})
	if s.chance("send_fail") {
		s.add(accountID, userID, map[string]any{
			"msgid": s.id("ev"), "origin": 4, "msgtype": "event",
			"event": map[string]any{"event_type": "msg_send_fail", "open_kfid": accountID, "external_userid": userID,
				"fail_msgid": msgID, "fail_type": 10},
		})
		go s.Ring(accountID)
	}
	return ok(answer{"msgid": msgID})
}

// welcome is send_msg_on_event: one message for each code.
func (s *Server) welcome(in map[string]any, raw []byte) answer {
	end, known := s.codes[text(in["code"])]
	if !known || s.now().After(end) {
		return code(95015, "invalid code")
	}
	delete(s.codes, text(in["code"]))
	s.sent = append(s.sent, Sent{MsgID: text(in["msgid"]), Type: text(in["msgtype"]), At: s.now(), Body: raw})
	return ok(answer{"msgid": text(in["msgid"])})
}

// move is service_state/trans.
func (s *Server) move(in map[string]any, _ []byte) answer {
	u, state := s.user(text(in["open_kfid"]), text(in["external_userid"])), int(number(in["service_state"]))
	if state < 1 || state > 4 || state == u.state {
		return code(95016, "state transition not allowed")
	}
	u.state = state
	return ok(answer{})
}

func (s *Server) stateOf(in map[string]any, _ []byte) answer {
	return ok(answer{"service_state": s.user(text(in["open_kfid"]), text(in["external_userid"])).state})
}

func (s *Server) media(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	a := s.admit("media/get", r.URL.Query().Get("access_token"))
	s.mu.Unlock()
	if a == nil && !strings.HasPrefix(r.URL.Query().Get("media_id"), "media") {
		a = code(40007, "invalid media_id")
	}
	if a != nil {
		write(w, a)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	_, _ = w.Write([]byte("\x89PNG\r\n\x1a\n" + r.URL.Query().Get("media_id")))
}
