package meter

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// The CPU of a server is that of its backends, also of those that have ended.
func TestTreeCPUCountsChildren(t *testing.T) {
	const burn = `i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; `
	for name, script := range map[string]string{
		"reaped": `sh -c '` + burn + `'; echo; read x`,
		"living": `sh -c '` + burn + `echo; read x <&3' 3<&0 & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", script)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close(); _ = cmd.Wait() }()
			if _, err := out.Read(make([]byte, 1)); err != nil { // the child has burnt its time
				t.Fatal(err)
			}
			cpu, err := treeCPU(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			self, err := stat(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			if cpu-own(self) < 50*time.Millisecond {
				t.Errorf("CPU of the children is %v, which is less than they used", cpu-own(self))
			}
		})
	}
}

func TestOwnFigures(t *testing.T) {
	if rss := PeakRSS(); rss < 1<<20 {
		t.Errorf("peak RSS is %d bytes", rss)
	}
	if p, err := stat(os.Getpid()); err != nil || p.PPID != os.Getppid() {
		t.Errorf("own process = %+v, %v", p, err)
	}
}

func TestPercentileAndMedian(t *testing.T) {
	sorted := make([]int, 100)
	for i := range sorted {
		sorted[i] = i + 1
	}
	for p, want := range map[float64]int{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Percentile(sorted, p); got != want {
			t.Errorf("Percentile(1..100, %v) = %d, want %d", p, got, want)
		}
	}
	if got := Percentile([]int(nil), 0.5); got != 0 {
		t.Errorf("Percentile of nothing = %d", got)
	}
	unsorted := []float64{9, 1, 5}
	if got := Median(unsorted); got != 5 || unsorted[0] != 9 {
		t.Errorf("Median = %v, and it left %v", got, unsorted)
	}
	if got := Median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("Median of four = %v, want 2.5", got)
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.00426: "0.00426", 1: "1.00", 9.994: "9.99", 12.34: "12.3", 998: "998", 9994: "9994", 9995: "10.0k",
		27_931: "27.9k", 1.2e6: "1.20M",
	} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v) = %s, want %s", v, got, want)
		}
	}
}
