package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"

	"github.com/gocolly/colly/v2"
	"golang.org/x/net/html"
)

// collyArm crawls as the examples of Colly do, and writes a line for each page. Colly keeps what it has seen in memory.
func collyArm(seed string) error {
	f, err := os.Create("pages.jsonl")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	var mu sync.Mutex
	at, err := url.Parse(seed)
	if err != nil {
		return err
	}
	c := colly.NewCollector(colly.Async(true), colly.AllowedDomains(at.Hostname(), at.Host))
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: parallel}); err != nil {
		return err
	}
	c.WithTransport(&http.Transport{MaxIdleConns: parallel, MaxIdleConnsPerHost: parallel})
	var failed error
	c.OnError(func(r *colly.Response, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = fmt.Errorf("%s: %w", r.Request.URL, err)
	})
	c.OnHTML("title", func(e *colly.HTMLElement) {
		line, _ := json.Marshal(map[string]any{"url": e.Request.URL.String(), "status": e.Response.StatusCode,
			"title": e.Text})
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(line, '\n'))
	})
	c.OnHTML("a[href]", func(e *colly.HTMLElement) { _ = e.Request.Visit(e.Attr("href")) }) // most are known
	if err := c.Visit(seed); err != nil {
		return err
	}
	c.Wait()
	if failed != nil {
		return failed
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// bareArm is the least that a crawl takes: net/http, a tokenizer that reads links, and a set of what it has seen.
func bareArm(seed string) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: parallel, MaxIdleConnsPerHost: parallel}}
	var (
		mu   sync.Mutex
		seen = map[string]bool{seed: true}
		todo = []string{seed}
		busy int
		wake = sync.NewCond(&mu)
		bad  error
		wg   sync.WaitGroup
	)
	worker := func() {
		mu.Lock()
		defer mu.Unlock()
		for {
			for len(todo) == 0 && busy > 0 {
				wake.Wait()
			}
			if len(todo) == 0 {
				wake.Broadcast()
				return
			}
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			busy++
			mu.Unlock()
			found, err := links(client, at)
			mu.Lock()
			busy--
			if err != nil {
				bad = err
			}
			for _, link := range found {
				if !seen[link] {
					seen[link] = true
					todo = append(todo, link)
				}
			}
			wake.Broadcast()
		}
	}
	for range parallel {
		wg.Go(worker)
	}
	wg.Wait()
	if bad != nil {
		return bad
	}
	return os.WriteFile("pages.jsonl", nil, 0o600)
}

func links(client *http.Client, at string) (found []string, err error) {
	resp, err := client.Get(at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	base := resp.Request.URL
	for z := html.NewTokenizer(resp.Body); ; {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() != io.EOF {
				return nil, z.Err()
			}
			return found, nil
		case html.StartTagToken:
			name, more := z.TagName()
			for link := string(name) == "a"; link && more; {
				var key, value []byte
				if key, value, more = z.TagAttr(); string(key) == "href" {
					if u, err := base.Parse(string(value)); err == nil {
						found = append(found, u.String())
					}
				}
			}
		}
	}
}
