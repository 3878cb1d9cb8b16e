# Metrics, runs during training, analyses and embeddings → figures.


rule figure:
    input:
        measured=of(DATA.figure_inputs, "paper", "figure"),
        reference=code_file("references/{paper}/{figure}.yaml"),
        tables=of(DATA.figure_tables, "paper", "figure"),
        paper=code_file("references/{paper}/paper.yaml"),
        lock=code_file("envs/requirements.lock"),
        sources=of(PLAN.figure_sources, "paper", "figure"),
        schemas=[code_file(f"src/pretrieve/schemas/{name}.schema.yaml") for name in ("figures", "references")],
    output:
        csv=f"{ROOT}/figures/{{paper}}/{{figure}}.csv",
        svg=shown(f"{ROOT}/figures/{{paper}}/{{figure}}.svg", "figure", "Figures", {"figure": "{figure}"}),
        manifest=f"{ROOT}/figures/{{paper}}/{{figure}}.manifest.json",
    log:
        f"{ROOT}/logs/figure/{{paper}}/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/figure/{{paper}}-{{figure}}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["figure"].threads
    resources:
        **NEEDS["figure"].resources,
    params:
        code=stage_code("figure.py"),
        setting=as_text(partial(figure_plan.setting_of, PLAN), "paper"),
        hash=config_hash(config),
    message:
        "Drawing {wildcards.paper} {wildcards.figure}"
    shell:
        "OMP_NUM_THREADS={threads}"
        f" python {SCRIPTS}/figure.py"
        " --reference {input.reference:q} --setting {params.setting} --config-hash {params.hash} --lock {input.lock:q}"
        " --sources {input.sources:q} --csv {output.csv} --svg {output.svg} --manifest {output.manifest} --log {log}"
