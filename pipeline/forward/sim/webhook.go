package sim

import (
	"bytes"
	"net/http"
	"time"
)

// pushAll begins to call the webhook, if there is one and something to be told. The caller holds mu.
func (s *Server) pushAll() {
	if s.webhook == "" || s.hooking || len(s.updates) == 0 {
		return
	}
	s.hooking = true
	go s.push()
}

// push calls the webhook for each update, in order, until it is answered 200.
func (s *Server) push() {
	for wait := 100 * time.Millisecond; ; {
		s.mu.Lock()
		if s.webhook == "" || len(s.updates) == 0 {
			s.hooking = false
			s.mu.Unlock()
			return
		}
		body, id, url, secret := s.updates[0], s.ids[0], s.webhook, s.secret
		s.mu.Unlock()
		if tell(url, secret, body) {
			s.mu.Lock()
			s.confirm(id + 1)
			s.mu.Unlock()
			wait = 100 * time.Millisecond
			continue
		}
		time.Sleep(wait)
		wait = min(2*wait, 5*time.Second)
	}
}

func tell(url, secret string, body []byte) bool {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body)) //nolint:noctx // it ends with the process
	if err != nil {
		return false
	}
	req.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
