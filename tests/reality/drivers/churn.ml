(* OCaml: strings of all ages, most of them short-lived; a table that is kept at one size. churn SECONDS *)
let () =
  let finish = Unix.gettimeofday () +. float_of_string Sys.argv.(1) in
  let kept = Hashtbl.create 20000 in
  let step = ref 0 in
  while Unix.gettimeofday () < finish do
    incr step;
    for _ = 1 to 50000 do
      let key = Random.int 20000 in
      Hashtbl.replace kept key (String.concat " " (List.init (1 + (key mod 20)) (Printf.sprintf "row %06d of step %06d: %02d" key !step)))
    done;
    Printf.printf "step %d\n%!" !step
  done
