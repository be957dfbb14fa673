// The Go kernel (see kernels/PROTOCOL.md): one living process that loads each cell as a plugin, so that variables,
// goroutines, channels and open files of earlier cells are simply there.
//
// A cell is split into declarations and statements, checked with go/types against what earlier cells declared, and
// written out as a package of its own: osbcN. What it declares gets an exported name there (x becomes X_x), because
// later cells are other packages; variables made by := or var at the top level become variables of the package.
// A cell that begins with a package clause is a program of its own: it is built and run as a child.
//
// This is package main of a module in a directory of its own, which is the first argument.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"plugin"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"osbkernel/osb"
)

const (
	controlFd = 3
	maxFrame  = 16 << 20
	maxText   = 1 << 20
)

var (
	control = os.NewFile(controlFd, "control")
	dir     string
	count   int
)

type frame map[string]interface{}

func send(f frame) {
	body, err := json.Marshal(f)
	if err != nil {
		return
	}
	head := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(head, uint32(len(body)))
	if _, err := control.Write(append(head, body...)); err != nil {
		os.Exit(0)
	}
}

func fail(name, value string, lines []string) {
	if len(value) > 65536 {
		value = value[:65536]
	}
	if len(lines) > 500 {
		lines = lines[:500]
	}
	send(frame{"op": "error", "ename": name, "evalue": value, "traceback": lines})
}

// cellError is what a cell came to, other than its end.
type cellError struct {
	name, value string
	lines       []string
}

func (e *cellError) Error() string { return e.value }

func compileError(text string) *cellError {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if text == "interrupted" {
		return &cellError{"KeyboardInterrupt", text, lines}
	}
	return &cellError{"CompileError", lines[0], lines}
}

func receive() (string, string, bool) {
	var head [4]byte
	if _, err := io.ReadFull(control, head[:]); err != nil {
		return "", "", false
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return "", "", false
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(control, body); err != nil {
		return "", "", false
	}
	var f struct{ Op, Code string }
	if json.Unmarshal(body, &f) != nil {
		return "", "", false
	}
	return f.Op, f.Code, true
}

func main() {
	syscall.CloseOnExec(controlFd)
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // a frame comes with it
	dir = os.Args[1]
	osb.ShowFunc = show
	cells, interrupts := make(chan string), make(chan struct{}, 1)
	go func() {
		for {
			op, code, ok := receive()
			if !ok || op == "exit" {
				os.Exit(0)
			}
			switch op {
			case "run":
				select {
				case <-interrupts: // of a cell that has ended
				default:
				}
				cells <- code
			case "interrupt":
				select {
				case interrupts <- struct{}{}:
				default:
				}
			}
		}
	}()
	send(frame{"op": "ready", "language": "go", "version": strings.TrimPrefix(runtime.Version(), "go")})
	for code := range cells {
		count++
		done := make(chan error, 1)
		go func() { done <- run(code) }()
		select {
		case err := <-done:
			tell(err)
		case <-interrupts:
			tell(interrupted(done))
		}
		send(frame{"op": "done", "count": count})
	}
}

// A build and a program end by the signal that came along; a goroutine cannot be stopped.
func interrupted(done chan error) error {
	if inChild.Load() {
		<-done
		return &cellError{"KeyboardInterrupt", "interrupted", []string{"interrupted"}}
	}
	words := "interrupted; a goroutine cannot be stopped from outside: it goes on in the background"
	return &cellError{"KeyboardInterrupt", words, []string{words}}
}

func tell(err error) {
	if err == nil {
		return
	}
	if e, ok := err.(*cellError); ok {
		fail(e.name, e.value, e.lines)
		return
	}
	fail("Error", err.Error(), strings.Split(err.Error(), "\n"))
}

var packageClause = regexp.MustCompile(`(?m)\A(\s|//.*$|/\*(?s:.*?)\*/)*package\s+\w+`)

func run(code string) error {
	if packageClause.MatchString(code) {
		return runProgram(code)
	}
	cell, err := translate(count, code)
	if err != nil {
		return err
	}
	if cell.empty {
		return nil
	}
	start, err := load(cell)
	if err != nil {
		return err
	}
	keep(cell)
	return call(start)
}

// call runs the cell's statements; a panic is the cell's error.
func call(start func()) (err error) {
	finished := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				lines := strings.Split(strings.TrimSpace(string(debug.Stack())), "\n")
				err = &cellError{"panic", fmt.Sprint(r), append([]string{"panic: " + fmt.Sprint(r)}, userFrames(lines)...)}
			} else if !finished {
				err = &cellError{"Goexit", "the cell ended its goroutine", []string{"runtime.Goexit"}}
			}
		}()
		start()
		finished = true
	}()
	<-done
	return err
}

// userFrames leaves out what is ours and the runtime's.
func userFrames(lines []string) (out []string) {
	for i := 1; i+1 < len(lines); i += 2 {
		if strings.Contains(lines[i+1], "cell[") {
			out = append(out, plainNames(lines[i]), strings.TrimRight(lines[i+1], "\n"))
		}
	}
	return out
}

// ---- building ----

func goTool(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GOWORK=off")
	out, err := inChildOf(cmd)
	if err != nil && strings.TrimSpace(out) == "" { // without a word: by the signal of an interrupt
		out = "interrupted"
	}
	return out, err
}

func write(name, text string) error {
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

func load(cell *cellPackage) (func(), error) {
	if err := write(cell.name+"/cell.go", cell.text); err != nil {
		return nil, err
	}
	wrapper := fmt.Sprintf("package main\n\nimport %q\n\nfunc Run() { %s.OsbRun() }\n\nfunc main() {}\n", "osbkernel/"+cell.name, cell.name)
	if err := write("p/"+cell.name+"/main.go", wrapper); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "p", cell.name+".so")
	if out, err := goTool("build", "-buildmode=plugin", "-o", file, "./p/"+cell.name); err != nil {
		if strings.Contains(out, "requires external (cgo) linking") || strings.Contains(out, "C compiler") || strings.Contains(out, "requires cgo") {
			return nil, &cellError{"MissingCompiler", "Go cells need a C compiler (gcc) in the image; programs that begin with " +
				"\"package main\" do not", strings.Split(out, "\n")}
		}
		return nil, compileError(plainNames(out))
	}
	opened, err := plugin.Open(file)
	os.Remove(file)
	if err != nil {
		return nil, err
	}
	symbol, err := opened.Lookup("Run")
	if err != nil {
		return nil, err
	}
	return symbol.(func()), nil
}

func runProgram(code string) error {
	place := "program" + strconv.Itoa(count)
	if err := write(place+"/main.go", code); err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Join(dir, place))
	getMissing(importsOf(code))
	file := filepath.Join(dir, place, "program")
	if out, err := goTool("build", "-o", file, "./"+place); err != nil {
		out = regexp.MustCompile(`(?m)^# .*\n`).ReplaceAllString(out, "")
		return compileError(strings.ReplaceAll(out, place+"/main.go", "cell"))
	}
	cmd := exec.Command(file)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	inChild.Store(true)
	err := cmd.Run()
	inChild.Store(false)
	if exit, ok := err.(*exec.ExitError); ok {
		return &cellError{"ExitError", exit.String(), []string{exit.String()}}
	}
	return err
}

// ---- values ----

func show(values ...interface{}) {
	parts := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string:
			parts[i] = strconv.Quote(v)
		case error:
			parts[i] = v.Error()
		default:
			parts[i] = plainNames(fmt.Sprintf("%+v", v))
		}
	}
	text := strings.Join(parts, " ")
	if len(text) > maxText {
		text = fmt.Sprintf("%s\n... (cut: %d of %d bytes shown)", text[:maxText], maxText, len(text))
	}
	send(frame{"op": "result", "count": count, "data": map[string]string{"text/plain": text}})
}

var ourNames = regexp.MustCompile(`\b(osbkernel/)?(osbc\d+\.)?X_`)
var ourPackages = regexp.MustCompile(`\b(osbkernel/)?osbc\d+\.`)

// plainNames undoes the renaming in texts that people read.
func plainNames(s string) string {
	s = strings.ReplaceAll(s, "OsbRun(", "cell(")
	return ourPackages.ReplaceAllString(ourNames.ReplaceAllString(s, ""), "")
}
