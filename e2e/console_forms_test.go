//go:build unix

package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
)

// TestFormsAnswerInTheirPlace: why something is not done, and what a plan would do, are said in the form, which stays
// as it was written.
func TestFormsAnswerInTheirPlace(t *testing.T) {
	t.Parallel()
	in := newIncident(t, tasked)
	base := in.startConsole()
	p := &person{browser: newBrowser(t, base, "en")}
	command(p.browser, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: 1440, Height: 900, DeviceScaleFactor: 1})
	p.begins()
	p.clickOn("nav a", "Schedules")
	p.click("New schedule")
	p.types("weekly")
	p.click("Cron expression")
	p.types("99 99 * * *")
	p.clickOn("form button", "New schedule")
	p.sees("invalid request", "99")
	p.clickOn("td a", "nightly")
	p.click("Backfill")
	p.types("25h")
	p.click("Show the plan")
	p.sees("nothing was changed", "Messages that it would send: 1")
}

// TestFormOpenedEarly: a form that is opened before the scripts of its page have come has the focus once they have.
func TestFormOpenedEarly(t *testing.T) {
	t.Parallel()
	in := newIncident(t, tasked)
	console, err := url.Parse(in.startConsole())
	if err != nil {
		t.Fatal(err)
	}
	clicked := make(chan struct{})
	serve := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(console.JoinPath("..")) }}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/console.js") {
			select {
			case <-clicked:
			case <-r.Context().Done():
			}
		}
		serve.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	p := &person{browser: newBrowser(t, slow.URL+"/console/", "en")}
	command(p.browser, page.Navigate, page.NavigateParams{URL: p.base + "schedules/nightly"})
	p.click("Backfill")
	close(clicked)
	p.types("25h")
}
