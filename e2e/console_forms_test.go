//go:build unix

package e2e

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
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
